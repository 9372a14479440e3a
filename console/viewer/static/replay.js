// Execute an episode again and show the verdict on each turn as it comes. Leaving the page ends the replay.
const button = document.getElementById("replay");
const otherImage = document.getElementById("other-image");
const verdict = document.getElementById("verdict");

button?.addEventListener("click", () => {
  button.disabled = true;
  for (const row of document.querySelectorAll("[data-turn]")) {
    row.classList.remove("equal", "differs");
    row.querySelector(".outcome").textContent = "";
  }
  otherImage.hidden = true;
  const begin = Date.now();
  let doing = "starting the environment";
  const progress = () => show(`${doing}, for ${Math.round((Date.now() - begin) / 1000)} s …`, "");
  const timer = setInterval(progress, 1000);
  progress();
  const source = new EventSource(button.dataset.events);
  const end = (text, name) => { clearInterval(timer); source.close(); button.disabled = false; show(text, name); };
  source.addEventListener("turn", (event) => {
    const turn = JSON.parse(event.data);
    doing = `executing, turn ${turn.index} is compared`;
    mark(turn);
  });
  source.addEventListener("ended", (event) => {
    const { matches, message, images } = JSON.parse(event.data);
    const short = (text) => images.reduce((found, one) => found.replaceAll(one, one.slice(0, 19)), text);
    end(short(message), matches ? "equal" : "differs");
    otherImage.hidden = !images.length;
    if (images.length) {
      otherImage.textContent = `Another image than in the run: ${images.map(short).join(" then, now ")}`;
      otherImage.title = images.join(" then, now ");
    }
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
