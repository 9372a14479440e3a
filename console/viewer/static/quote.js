// A link to a selected quotation: the page that it opens marks the quotation and scrolls to it.
const button = document.getElementById("quote-button");
const LENGTH_MAX = 1000;
let link = null;

const plain = (text) => text.replace(/\s+/g, " ").trim();

function textOf(field, selection) {
  const range = selection.getRangeAt(0).cloneRange();
  if (!field.contains(range.endContainer)) range.setEnd(field, field.childNodes.length);
  return range;
}

// Which occurrence of the quotation the selection is, among those of the text, from 0.
function occurrence(field, range, quote) {
  const earlier = document.createRange();
  earlier.setStart(field, 0);
  earlier.setEnd(range.startContainer, range.startOffset);
  const before = plain(earlier.toString()).length, whole = plain(field.textContent);
  let count = 0;
  for (let at = whole.indexOf(quote); at >= 0 && at < before; at = whole.indexOf(quote, at + quote.length)) count += 1;
  return count;
}

function address() {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const node = selection.getRangeAt(0).startContainer;
  const field = (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement)?.closest(".turn [data-field]");
  if (!field) return null;
  const range = textOf(field, selection);
  const quote = plain(range.toString()).slice(0, LENGTH_MAX).trim();
  if (!quote) return null;
  const query = new URLSearchParams({ turn: field.closest(".turn").dataset.turn, field: field.dataset.field, quote });
  const number = occurrence(field, range, quote);
  if (number) query.set("occurrence", number);
  return { href: `${location.origin}${location.pathname}?${query}#quote`, box: range.getBoundingClientRect() };
}

function place() {
  link = address();
  button.hidden = !link;
  if (!link) return;
  button.firstChild.textContent = "copy link ";
  button.style.left = `${Math.max(8, Math.min(link.box.left + scrollX, document.documentElement.clientWidth - 120))}px`;
  button.style.top = `${link.box.bottom + scrollY + 6}px`;
}

async function copy() {
  if (!link) return;
  try {
    await navigator.clipboard.writeText(link.href);
    button.firstChild.textContent = "copied ";
  } catch { // without permission, the address bar has the link
    history.replaceState(null, "", link.href);
    button.firstChild.textContent = "see the address bar ";
  }
}

document.addEventListener("selectionchange", place);
button.addEventListener("pointerdown", (event) => event.preventDefault()); // keeps the selection
button.addEventListener("click", copy);
document.addEventListener("keydown", (event) => {
  if (event.key !== "y" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (!link) return;
  event.preventDefault();
  copy();
});
