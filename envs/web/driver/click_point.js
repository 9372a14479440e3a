// The point where a click hits the element, and whether it is a download link; null for an element that it would not hit.
function() {
  const one = this.nodeType === 1 ? this : this.parentElement;
  if (!one || !one.isConnected || !one.checkVisibility({visibilityProperty: true})) return null;
  if (one.matches(':disabled') || one.closest('[aria-disabled=true]')) return null;
  if (getComputedStyle(one).pointerEvents === 'none') return null;
  const inside = box => box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
  const point = () => {
    const box = one.getClientRects()[0];
    if (!box || box.width < 1 || box.height < 1) return null;
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    const hit = one.getRootNode().elementFromPoint(x, y);
    return hit && (hit === one || one.contains(hit)) ? [x, y, !!one.closest('a[download]')] : null;
  };
  // Scroll if it is outside the window, or hidden by a container that scrolls within the window.
  const found = inside(one.getBoundingClientRect()) ? point() : null;
  if (found) return found;
  one.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  return point();
}
