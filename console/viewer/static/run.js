// The curves of a run, and what is new in it while it trains: an event carries only values after the cursor.
import { Board, reveal } from "./chart.js";
import { label } from "./rows.js";

const host = document.getElementById("charts");
if (host) start();

async function start() {
  const answer = await fetch(host.dataset.series).catch(() => null);
  if (!answer?.ok) return trouble("The curves cannot be loaded; load the page again.");
  const board = new Board((update) => location.assign(`${host.dataset.updates}/${update}`));
  const series = await answer.json(), curves = new Curves(board, series.every);
  curves.grow(series);
  board.onzoom = () => curves.refine();
  board.onzoom();
  if (host.dataset.live === "yes") follow(curves, series.cursor);
}

// The columns of a run, and a chart for each that has a value, whenever its first one comes.
class Curves {
  constructor(board, every) {
    const columns = () => [{ x: [], y: {} }, { x: [], y: {} }];
    Object.assign(this, { board, every, points: [], charts: new Map(), coarse: columns(), fine: [], columns: columns(), asked: 0 });
  }

  grow(fresh) {
    this.extend(this.coarse[0], fresh.updates, fresh.values);
    this.extend(this.coarse[1], fresh.pace.updates, fresh.pace.values);
    this.weave();
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

  // Of a long run, the curves have every n-th update; those of a zoom are loaded. A late answer is dropped.
  async refine() {
    const mine = (this.asked += 1), zoomed = this.board.zoomed;
    if (this.every === 1) return;
    const [from, to] = (zoomed ?? [0, 0]).map((end) => Math.max(Math.round(end), 0));
    const answer = zoomed ? await fetch(`${host.dataset.series}?from=${from}&to=${to}`).catch(() => null) : null;
    const fine = answer?.ok ? await answer.json() : null;
    if (mine !== this.asked) return;
    this.fine = fine ? [{ x: fine.updates, y: fine.values }, { x: fine.pace.updates, y: fine.pace.values }] : [];
    this.weave();
    this.board.draw();
  }

  // Fill the drawn columns in place: the finer values in their span, the others around it.
  weave() {
    this.coarse.forEach((coarse, at) => {
      const fine = this.fine[at]?.x.length ? this.fine[at] : { x: [], y: {} }, drawn = this.columns[at];
      const outside = (x) => !fine.x.length || x < fine.x[0] || x > fine.x.at(-1);
      const rows = [coarse, fine].flatMap((of) => of.x.map((x, place) => ({ x, of, place })).filter(({ x }) => of === fine || outside(x)));
      rows.sort((one, other) => one.x - other.x);
      fill(drawn.x, rows.map(({ x }) => x));
      for (const metric of Object.keys(coarse.y)) fill((drawn.y[metric] ??= []), rows.map(({ of, place }) => of.y[metric]?.[place] ?? null));
    });
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

function fill(column, values) {
  column.length = 0;
  for (const one of values) column.push(one);
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
    if (!next || part.contains(document.activeElement)) continue;
    part.replaceWith(next);
    label(next);
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
