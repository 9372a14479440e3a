// The point where a click hits the element, and whether it is a download link; null for an element that it would not hit.
function() {
  const one = this.nodeType === 1 ? this : this.parentElement;
  if (!one || !one.isConnected || !one.checkVisibility({visibilityProperty: true})) return null;
  if (one.matches(':disabled') || one.closest('[aria-disabled=true]')) return null;
  if (getComputedStyle(one).pointerEvents === 'none') return null;
  const inside = box => box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
  // A click on a label clicks its control, which a page may hide behind the label to draw another box.
  const point = () => {
    for (const target of [one, ...one.labels ?? []]) {
      const box = target.getClientRects()[0];
      if (!box || box.width < 1 || box.height < 1) continue;
      const x = box.left + box.width / 2, y = box.top + box.height / 2;
      const hit = one.getRootNode().elementFromPoint(x, y);
      const hits = target === one ? one.contains(hit) : hit?.closest('a, button, input, label') === target;
      if (hits) return [x, y, !!one.closest('a[download]')];
    }
    return null;
  };
  // Scroll if it is outside the window, or hidden by a container that scrolls within the window.
  const found = inside(one.getBoundingClientRect()) ? point() : null;
  if (found) return found;
  one.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  return point();
}
