// The curves of a run, and what is new in it while it trains: an event carries only values after the cursor.
import { Board, reveal } from "./chart.js";

const host = document.getElementById("charts");
if (host) start();

async function start() {
  const answer = await fetch(host.dataset.series).catch(() => null);
  if (!answer?.ok) return trouble("The curves cannot be loaded; load the page again.");
  const curves = new Curves(new Board((update) => location.assign(`${host.dataset.updates}/${update}`)));
  const series = await answer.json();
  curves.grow(series);
  if (host.dataset.live === "yes") follow(curves, series.cursor);
}

// The columns of a run, and a chart for each that has a value, whenever its first one comes.
class Curves {
  constructor(board) {
    Object.assign(this, { board, points: [], charts: new Map(), columns: [{ x: [], y: {} }, { x: [], y: {} }] });
  }

  grow(fresh) {
    this.extend(this.columns[0], fresh.updates, fresh.values);
    this.extend(this.columns[1], fresh.pace.updates, fresh.pace.values);
    this.points.push(...fresh.evaluations.map(point));
    for (const chart of fresh.charts) this.show(chart);
    if (fresh.updates.length) document.getElementById("no-update").hidden = true;
    this.board.draw();
  }

  extend(columns, updates, values) {
    for (const metric of Object.keys(values)) columns.y[metric] ??= columns.x.map(() => null);
    columns.x.push(...updates);
    for (const [metric, column] of Object.entries(columns.y)) column.push(...(values[metric] ?? updates.map(() => null)));
  }

  show(spec) {
    const known = this.charts.get(spec.title), lines = known?.lines ?? [];
    for (const { metric, label } of spec.lines) {
      if (lines.some((line) => line.metric === metric)) continue;
      const { x, y } = this.columns.find((one) => metric in one.y);
      lines.push({ metric, label, color: lines.length, x, y: y[metric] });
    }
    if (known) return known.showKey();
    const figure = [...host.querySelectorAll(".chart")].find((one) => one.dataset.chart === spec.title);
    reveal(figure);
    const points = spec.has_held_out ? this.points : null;
    this.charts.set(spec.title, this.board.add(figure, { title: spec.title, unit: spec.unit, stacked: spec.is_stacked, lines, points, pointsLabel: "held out, with its interval" }));
  }
}

function point(one) {
  return { x: Math.max(one.update, 0), y: one.rate.success, low: one.rate.low, high: one.rate.high, label: `held out (${one.name})`, color: 1 };
}

function follow(curves, { update, version, evaluations, paced }) {
  let cursor = `${update + 1}.${version + 1}.${evaluations}.${paced + 1}`, source = null, ended = false;
  const stop = () => { ended = true; source.close(); };
  const listen = () => {
    source = new EventSource(`${host.dataset.events}?cursor=${cursor}`);
    source.addEventListener("series", (event) => {
      cursor = event.lastEventId;
      const fresh = JSON.parse(event.data);
      curves.grow(fresh);
      if (fresh.updates.length || fresh.evaluations.length) refresh();
    });
    source.addEventListener("ended", (event) => { stop(); showStatus(JSON.parse(event.data).status); refresh(); });
    source.addEventListener("rewound", () => { stop(); location.reload(); });
    source.addEventListener("trouble", (event) => { stop(); trouble(`This page no longer follows the run: ${JSON.parse(event.data).error}`); });
    source.addEventListener("open", () => trouble(""));
    source.addEventListener("error", () => { if (!ended) trouble("The viewer does not answer; this page follows the run again as soon as it does."); });
  };
  // A browser opens six connections per host: a hidden tab has none.
  if (!document.hidden) listen();
  document.addEventListener("visibilitychange", () => {
    if (ended) return;
    source?.close();
    if (!document.hidden) listen();
  });
}

// Replace the tiles, the bar of updates, the fates and the evaluations by those of now; a late answer is dropped.
let asked = 0;
async function refresh() {
  const mine = (asked += 1);
  const answer = await fetch(host.dataset.fresh).catch(() => null);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (mine !== asked) return;
  for (const part of document.querySelectorAll("[data-now]")) {
    const next = fresh.querySelector(`[data-now="${part.dataset.now}"]`);
    if (next && !part.contains(document.activeElement)) part.replaceWith(next);
  }
}

function showStatus(text) {
  const shown = document.querySelector("#status .status");
  shown.textContent = text;
  shown.className = `status s-${text}`;
}

function trouble(text) {
  const shown = document.getElementById("trouble");
  shown.textContent = text;
  shown.hidden = !text;
}
