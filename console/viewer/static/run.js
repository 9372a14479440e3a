// The curves of a run, and what is new in them while it trains: an event carries only values after the cursor.
import { Board, format } from "./chart.js";

const host = document.getElementById("charts");
if (host) start();
else if (document.getElementById("no-update")) setTimeout(() => location.reload(), 5000);

async function start() {
  const board = new Board((update) => location.assign(`${host.dataset.updates}/${update}`));
  const answer = await fetch(host.dataset.series);
  if (!answer.ok) return;
  const series = await answer.json();
  const columns = { updates: series.updates, values: series.values };
  const points = series.evaluations.map(point);
  for (const chart of series.charts) {
    const figure = [...host.querySelectorAll(".chart")].find((one) => one.dataset.chart === chart.title);
    if (!figure) continue;
    board.add(figure, {
      title: chart.title,
      unit: chart.unit,
      stacked: chart.is_stacked,
      lines: chart.lines.map((line, color) => ({ label: line.label, color, x: columns.updates, y: columns.values[line.metric] })),
      points: chart.has_held_out ? points : null,
      pointsLabel: "held out, 95 % interval",
    });
  }
  board.draw();
  if (host.dataset.live === "yes") follow(series, columns, points, board);
}

function point(one) {
  return { x: Math.max(one.update, 0), y: one.rate.success, low: one.rate.low, high: one.rate.high, label: `held out (${one.name})`, color: 1 };
}

function follow(series, columns, points, board) {
  const { update, version, evaluations } = series.cursor;
  let cursor = `${update + 1}.${version + 1}.${evaluations}`, source = null, ended = false;
  const stop = () => { ended = true; source.close(); };
  const listen = () => {
    source = new EventSource(`${host.dataset.events}?cursor=${cursor}`);
    source.addEventListener("series", (event) => { cursor = event.lastEventId; grow(JSON.parse(event.data)); });
    source.addEventListener("ended", (event) => { stop(); showStatus(JSON.parse(event.data).status); });
    source.addEventListener("rewound", () => { stop(); location.reload(); });
    source.addEventListener("trouble", (event) => { stop(); showStatus(JSON.parse(event.data).error); });
  };
  const grow = (fresh) => {
    columns.updates.push(...fresh.updates);
    for (const [metric, values] of Object.entries(columns.values)) {
      values.push(...(fresh.values[metric] ?? fresh.updates.map(() => null)));
    }
    points.push(...fresh.evaluations.map(point));
    if (fresh.updates.length) showNewest(fresh);
    board.draw();
  };
  listen();
  // A browser opens six connections per host: a hidden tab gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (ended) return;
    source.close();
    if (!document.hidden) listen();
  });
}

function showNewest(fresh) {
  const shown = { success: ["success", "rate"], reward: ["reward", "number"], staleness: ["staleness_mean", "number"] };
  for (const [tile, [metric, unit]] of Object.entries(shown)) {
    const place = document.getElementById(`tile-${tile}`), value = fresh.values[metric]?.at(-1);
    if (place && value !== undefined) place.textContent = format(value, unit);
  }
  document.getElementById("tile-updates").textContent = fresh.updates.at(-1);
}

function showStatus(text) {
  const shown = document.querySelector("#status .status");
  shown.textContent = text;
  shown.className = `status s-${text.split(" ")[0]}`;
}
