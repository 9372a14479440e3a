// Playback of an episode along its timeline: at a speed, without the lanes that are skipped; the URL keeps the position.
const section = document.getElementById("timeline");
if (section) start();

function start() {
  const SHORTEST_MS = 300; // a turn stays in view for at least this time, at any speed
  const bars = [...section.querySelectorAll("rect[data-turn]")];
  const parts = bars.map((bar) => ({ turn: Number(bar.dataset.turn), lane: bar.dataset.lane, start: Number(bar.dataset.start), length: Number(bar.dataset.length) }));
  const end = Number(section.dataset.length);
  const play = document.getElementById("play"), speed = document.getElementById("speed"), clock = document.getElementById("clock");
  const skips = { waiting: document.getElementById("skip-waiting"), sampling: document.getElementById("skip-sampling") };
  const head = document.getElementById("playhead");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const given = new URLSearchParams(location.search);
  let at = Math.min(Math.max(Number(given.get("at")) || 0, 0), end), turn = null, since = 0, before = null, playing = false;
  if ([...speed.options].some((one) => one.value === given.get("speed"))) speed.value = given.get("speed");
  if (given.has("skip")) for (const [lane, box] of Object.entries(skips)) box.checked = given.get("skip").split(",").includes(lane);
  document.getElementById("playback").hidden = false;

  const partAt = (moment) => parts.findLast((one) => one.start <= moment) ?? parts[0];
  const skipped = () => Object.keys(skips).filter((lane) => skips[lane].checked);

  function address(extra = {}) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries({ at: at.toFixed(2), speed: speed.value, skip: skipped().join(",") || "none", ...extra })) {
      if (value === null) query.delete(name); else query.set(name, value);
    }
    return query;
  }

  function draw() {
    head.setAttribute("visibility", "visible");
    head.setAttribute("x1", (1000 * at) / (end || 1));
    head.setAttribute("x2", (1000 * at) / (end || 1));
    clock.textContent = `turn ${partAt(at).turn} · ${at.toFixed(1)} s of ${end.toFixed(1)} s`;
  }

  function show(number) {
    turn = number;
    since = performance.now();
    for (const old of document.querySelectorAll(".turn.playing, .gallery .playing")) old.classList.remove("playing");
    const item = document.getElementById(`turn-${number}`);
    if (!item) { // on another page of turns
      const query = address({ start: Math.floor(number / 20) * 20, turn: null, play: playing ? 1 : null });
      location.assign(`${section.dataset.page}?${query}#turn-${number}`);
      return;
    }
    history.replaceState(null, "", `?${address({ play: null })}`);
    item.classList.add("playing");
    item.scrollIntoView({ block: "start", behavior: calm.matches ? "auto" : "smooth" });
    const picture = document.querySelector(`[data-thumbnail="${number}"]`);
    picture?.classList.add("playing");
    if (picture) picture.parentElement.scrollLeft = picture.offsetLeft - picture.parentElement.clientWidth / 2;
  }

  function tick(now) {
    if (!playing) return;
    const passed = before === null ? 0 : Math.min(now - before, 250);
    before = now;
    let next = at + (passed / 1000) * Number(speed.value);
    let part = partAt(next);
    while (part && skips[part.lane]?.checked) {
      next = part.start + part.length;
      const following = parts[parts.indexOf(part) + 1];
      if (!following || following === part) { part = null; break; }
      part = following;
    }
    const wanted = part?.turn ?? parts.at(-1).turn;
    if (turn !== null && wanted !== turn && now - since < SHORTEST_MS) { requestAnimationFrame(tick); return; }
    at = Math.min(next, end);
    if (wanted !== turn) show(wanted > (turn ?? wanted) + 1 ? turn + 1 : wanted);
    if (turn !== wanted) at = Math.min(at, parts.find((one) => one.turn === turn)?.start ?? at);
    draw();
    if (at >= end || !part) { pause(); return; }
    requestAnimationFrame(tick);
  }

  function resume() {
    playing = true;
    before = null;
    if (at >= end) { at = 0; turn = null; }
    play.textContent = "❚❚ pause";
    play.setAttribute("aria-pressed", "true");
    requestAnimationFrame(tick);
  }

  function pause() {
    playing = false;
    play.textContent = "▶ play";
    play.setAttribute("aria-pressed", "false");
    history.replaceState(null, "", `?${address({ play: null })}`);
    draw();
  }

  const toggle = () => (playing ? pause() : resume());
  play.addEventListener("click", toggle);
  document.getElementById("playback").addEventListener("submit", (event) => event.preventDefault());
  for (const input of [speed, ...Object.values(skips)]) input.addEventListener("change", () => history.replaceState(null, "", `?${address()}`));
  document.addEventListener("keydown", (event) => {
    if (event.key !== " " || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, button, a, summary, dialog")) return;
    event.preventDefault();
    toggle();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden && playing) pause(); });
  if (given.has("at")) { turn = partAt(at).turn; draw(); document.getElementById(`turn-${turn}`)?.classList.add("playing"); }
  if (given.get("play") === "1") resume();
}
