// Shade the tokens by another value without loading the page again.
for (const choice of document.querySelectorAll("[data-shade-by]")) {
  choice.addEventListener("click", (event) => {
    event.preventDefault();
    for (const shaded of document.querySelectorAll("[data-shade]")) shaded.dataset.shade = choice.dataset.shadeBy;
    document.querySelector("#shades [aria-current]")?.removeAttribute("aria-current");
    choice.setAttribute("aria-current", "true");
    history.replaceState(null, "", choice.getAttribute("href"));
  });
}
