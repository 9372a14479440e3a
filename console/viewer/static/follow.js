// `turnwise view --open LINK` moves the tab that is shown. A hidden one is not moved, and gives its connection back:
// a browser opens six of them per host.
let source = null;

function listen() {
  source = new EventSource("/opened");
  source.addEventListener("page", (event) => {
    const page = new URL(JSON.parse(event.data), location.origin);
    if (page.origin === location.origin) location.assign(page);
  });
}

document.addEventListener("visibilitychange", () => {
  source?.close();
  source = null;
  if (!document.hidden) listen();
});
if (!document.hidden) listen();
