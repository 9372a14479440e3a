// The strip of exact tokens: shade by another value, scroll from the curve, and show all values of a token.
const root = document.getElementById("strip");
const tip = document.getElementById("token-tip");
const strips = [...root.querySelectorAll(".body.strip")];
const firsts = strips.map((one) => Number(one.dataset.first));
const start = firsts[0] ?? 0;
const shown = Number(root.dataset.shown);
let columns = null;

for (const choice of root.querySelectorAll("[data-shade-by]")) {
  choice.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    root.dataset.shade = choice.dataset.shadeBy;
    root.querySelector("#shades [aria-current]")?.removeAttribute("aria-current");
    choice.setAttribute("aria-current", "true");
    keep("shade", choice.dataset.shadeBy);
    follow();
  });
}

function keep(name, value) {
  const query = new URLSearchParams(location.search);
  query.set(name, value);
  history.replaceState(null, "", `?${query}`);
}

function tokenAt(position) {
  let place = firsts.findLastIndex((first) => first <= position);
  if (place < 0) place = 0;
  let rest = position - firsts[place];
  for (const block of strips[place]?.children ?? []) {
    if (rest < block.children.length) return block.children[rest];
    rest -= block.children.length;
  }
  return null;
}

function positionOf(token) {
  const strip = token.closest(".strip");
  let position = Number(strip.dataset.first);
  for (const block of strip.children) {
    if (block === token.parentElement) break;
    position += block.children.length;
  }
  return position + [...token.parentElement.children].indexOf(token);
}

function choose(position, { scroll }) {
  const token = tokenAt(position);
  if (!token) return;
  document.getElementById("token")?.removeAttribute("id");
  token.id = "token";
  keep("token", position);
  if (!scroll) return;
  center(token);
}

// A block that was never near the window has an estimated height: each frame corrects the one before.
function center(token, frames = 8) {
  token.scrollIntoView({ block: "center" });
  if (frames) requestAnimationFrame(() => center(token, frames - 1));
}

// Values of all tokens, loaded once, when the pointer first rests on a token.
async function load() {
  columns ??= fetch(root.dataset.tokens).then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
  return columns;
}

const LABELS = [["logprob", "log-probability"], ["entropy", "entropy"], ["advantage", "advantage"], ["mismatch", "mismatch"], ["importance_weight", "importance weight"], ["staleness", "staleness"], ["version", "version"]];

function number(value) {
  return (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)))).replace("-", "−");
}

async function show(token, x, y) {
  const all = await load();
  if (!all || pointed !== token) return;
  const at = positionOf(token), lines = [];
  lines.push([JSON.stringify(all.text[at] ?? ""), `id ${all.id[at]}`]);
  lines.push(["position", `${at}, turn ${all.turn[at] ?? "–"}`], ["source", all.mask[at] ? "sampled by the policy" : all.source[at]]);
  for (const [name, label] of LABELS) if (all[name][at] !== null) lines.push([label, number(all[name][at])]);
  tip.replaceChildren(...lines.flatMap(([name, value]) => {
    const left = document.createElement("span"), right = document.createElement("b");
    left.textContent = name;
    right.textContent = value;
    return [left, right];
  }));
  tip.hidden = false;
  const width = tip.offsetWidth, height = tip.offsetHeight;
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(8, y - height - 14) : y + 18}px`;
}

let pointed = null;
root.addEventListener("pointermove", (event) => {
  const token = event.target.closest(".body.strip i");
  if (token === pointed) return;
  pointed = token;
  tip.hidden = true;
  mark(token ? positionOf(token) : null);
  if (token) show(token, event.clientX, event.clientY);
});
root.addEventListener("pointerleave", () => { pointed = null; tip.hidden = true; mark(null); });
root.addEventListener("click", (event) => {
  const token = event.target.closest(".body.strip i");
  if (token && getSelection().isCollapsed) choose(positionOf(token), { scroll: false });
});

// The curves: the part in the window, the token under the pointer, and a click that scrolls to its token.
const curves = [...root.querySelectorAll(".token-curve")];
const share = (position) => (1000 * (position - start)) / Math.max(shown, 1);

function mark(position) {
  for (const curve of curves) {
    const cross = curve.querySelector(".cross");
    cross.setAttribute("visibility", position === null ? "hidden" : "visible");
    if (position === null) continue;
    cross.setAttribute("x1", share(position + 0.5));
    cross.setAttribute("x2", share(position + 0.5));
  }
}

function positionIn(curve, event) {
  const box = curve.getBoundingClientRect();
  return start + Math.min(Math.max(Math.floor((shown * (event.clientX - box.left)) / box.width), 0), shown - 1);
}

for (const curve of curves) {
  curve.addEventListener("click", (event) => choose(positionIn(curve, event), { scroll: true }));
  curve.addEventListener("pointermove", (event) => mark(positionIn(curve, event)));
}

function follow() {
  const top = root.querySelector(".strip-head").getBoundingClientRect().bottom;
  let first = null, last = null;
  strips.forEach((strip, place) => {
    const box = strip.getBoundingClientRect();
    if (box.bottom < top || box.top > innerHeight || !box.height) return;
    const size = (firsts[place + 1] ?? start + shown) - firsts[place];
    first ??= firsts[place] + size * Math.max(0, (top - box.top) / box.height);
    last = firsts[place] + size * Math.min(1, (innerHeight - box.top) / box.height);
  });
  for (const curve of curves) {
    const part = curve.querySelector(".window");
    part.setAttribute("x", first === null ? 0 : share(first));
    part.setAttribute("width", first === null ? 0 : Math.max(share(last) - share(first), 2));
  }
}

let waits = false;
function later() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; follow(); });
}
addEventListener("scroll", later, { passive: true });
addEventListener("resize", later);
const named = document.getElementById("token");
if (named) center(named);
follow();
