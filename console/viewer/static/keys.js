// The keyboard, the theme switch, and the buttons that copy a command.
const items = () => [...document.querySelectorAll("[data-list] [data-item]")];
const link = (rel) => document.querySelector(`link[rel=${rel}]`)?.getAttribute("href");
const go = (href) => { if (href) location.assign(href); };
let current = -1;

function select(step) {
  const all = items();
  if (!all.length) return;
  all[current]?.classList.remove("current");
  current = Math.min(Math.max(current + step, 0), all.length - 1);
  all[current].classList.add("current");
  all[current].scrollIntoView({ block: "nearest" });
}

function flipTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* the choice lasts for this page */ }
}

const help = document.getElementById("help");
const actions = {
  j: () => select(1),
  k: () => select(-1),
  h: () => go(link("prev")),
  l: () => go(link("next") ?? document.querySelector("[data-next]")?.getAttribute("href")),
  u: () => go(link("up")),
  t: flipTheme,
  "/": () => document.getElementById("find").focus(),
  "?": () => (help.open ? help.close() : help.showModal()),
  Enter: () => go(items()[current]?.querySelector("a[href]")?.getAttribute("href")),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (typing && event.key === "Escape") event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && (event.target.closest("a, button, summary") || current < 0)) return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

document.getElementById("theme").addEventListener("click", flipTheme);
document.getElementById("help-button").addEventListener("click", actions["?"]);
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch { // without permission, or on a page of another machine without TLS
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1200);
  });
}
