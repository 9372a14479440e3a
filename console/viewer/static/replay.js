// Execute an episode again and show the verdict on each turn as it comes. Leaving the page ends the replay.
const button = document.getElementById("replay");
const verdict = document.getElementById("verdict");

button?.addEventListener("click", () => {
  button.disabled = true;
  for (const row of document.querySelectorAll("[data-turn]")) {
    row.classList.remove("equal", "differs");
    row.querySelector(".outcome").textContent = "";
  }
  show("executing …", "");
  const source = new EventSource(button.dataset.events);
  const end = (text, name) => { source.close(); button.disabled = false; show(text, name); };
  source.addEventListener("turn", (event) => mark(JSON.parse(event.data)));
  source.addEventListener("ended", (event) => {
    const { matches, message } = JSON.parse(event.data);
    end(message, matches ? "equal" : "differs");
  });
  source.onerror = () => end("the viewer does not answer", "differs");
});

function show(text, name) {
  verdict.textContent = text;
  verdict.className = name;
}

function mark({ index, matches, differs, diff }) {
  const row = document.querySelector(`[data-turn="${index}"]`);
  if (!row) return;
  row.classList.add(matches ? "equal" : "differs");
  const outcome = row.querySelector(".outcome");
  outcome.textContent = matches ? "equal" : differs;
  if (diff) {
    const text = document.createElement("pre");
    text.textContent = diff;
    outcome.append(text);
  }
}
