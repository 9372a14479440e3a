// Null if the field holds the text or the options, or is no field; else a key of `FORMATS` and its values.
function(value, types) {
  // The field that Playwright takes for an element: that of a label, or the element itself.
  const one = this.nodeType === 1 ? this : this.parentElement;
  const own = !one || one.matches('input, textarea, select') || one.isContentEditable;
  const field = own ? one : one.closest('label')?.control ?? one;
  if (Array.isArray(value)) {
    return value.length > 1 && field?.matches('select') && !field.multiple ? ['single', value.length] : null;
  }
  if (!field?.matches('input, textarea')) return null;
  if (!types.includes(field.type)) {
    if (field.maxLength >= 0 && value.length > field.maxLength) return ['length', +field.maxLength];
    return field.matches('input') && /[\r\n]/.test(value) ? ['line'] : null;
  }
  // A field of the same kind, which is not on the page, so the page gets no event.
  const other = document.createElement('input');
  for (const name of ['type', 'min', 'max', 'step', 'value']) {
    if (field.hasAttribute(name)) other.setAttribute(name, field.getAttribute(name));
  }
  const held = text => { other.value = text; return other.value; };
  const text = field.type === 'color' ? value.trim().toLowerCase() : value.trim();
  return held(text) === text ? null : [field.type, +held('-1e30'), +held('1e30'), +held(text)];
}
