// Selects the text of a field, as Playwright does before it inserts another one; false needs Playwright.
function() {
  const text = this.nodeName === 'TEXTAREA'
    || (this.nodeName === 'INPUT' && ['email', 'password', 'search', 'tel', 'text', 'url'].includes(this.type));
  if (!text || !this.isConnected || !this.checkVisibility({visibilityProperty: true})) return false;
  const box = this.getBoundingClientRect();
  if (!box.width || !box.height || this.matches(':disabled') || this.readOnly) return false;
  if (this.closest('[aria-disabled=true]') || this.ariaReadOnly === 'true') return false;
  this.select();
  this.focus();
  return this.getRootNode().activeElement === this;
}
