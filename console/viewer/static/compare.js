// The curves of several runs, a chart per metric, over updates, trained tokens or time.
import { Board, format, reveal } from "./chart.js";

const host = document.getElementById("compare-charts");
if (host) start();

async function start() {
  const runs = [...host.querySelectorAll("[data-series]")];
  const answers = await Promise.all(runs.map((one) => fetch(one.dataset.series).catch(() => null)));
  const all = await Promise.all(answers.map((one) => (one?.ok ? one.json() : null)));
  const board = new Board();
  const axis = host.dataset.axis;
  board.axis = { updates: "update", tokens: "trained tokens", time: "since the start" }[axis];
  board.name = (x) => (axis === "updates" ? `update ${x}` : axis === "tokens" ? `${format(x)} tokens` : minutes(x));
  board.tick = axis === "time" ? minutes : undefined;
  const charts = new Map();
  all.forEach((series, color) => {
    const name = runs[color].dataset.run, place = series && placesOf(series, axis);
    for (const chart of series?.charts ?? []) {
      if (chart.is_stacked) continue;
      for (const { metric, label } of chart.lines) {
        const found = charts.get(metric) ?? { ...chart, label, lines: [], points: [] };
        const of = metric in series.values ? series : series.pace;
        found.lines.push({ label: name, color, x: of.updates.map(place), y: of.values[metric] });
        if (chart.has_held_out) found.points.push(...series.evaluations.map((one) => ({ x: place(one.update), y: one.rate.success, low: one.rate.low, high: one.rate.high, label: `${name}, held out`, color })));
        charts.set(metric, found);
      }
    }
  });
  for (const chart of charts.values()) board.add(figureOf(chart), chart);
  board.draw();
}

// Return the function from the number of an update to its place on the axis; 0 before the first one.
function placesOf(series, axis) {
  if (axis === "updates") return (update) => Math.max(update, 0);
  let sum = 0;
  // Of a long run, a value stands for the updates since the drawn one before.
  const updates = (at) => (at ? series.updates[at] - series.updates[at - 1] : series.every);
  const columns = { tokens: () => series.values.tokens?.map((one, at) => (sum += (one ?? 0) * updates(at))) ?? [], time: () => series.seconds };
  const values = columns[axis]();
  const known = new Map(series.updates.map((update, at) => [update, values[at] ?? 0]));
  return (update) => known.get(update) ?? 0;
}

function minutes(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${+(seconds / 60).toFixed(1)} min` : `${+(seconds / 3600).toFixed(1)} h`;
}

function figureOf(chart) {
  const figure = document.createElement("figure");
  figure.className = chart.title === "Success" ? "chart large" : "chart";
  figure.dataset.chart = chart.title;
  const caption = document.createElement("figcaption"), title = document.createElement("b");
  title.textContent = chart.title;
  const label = document.createElement("span");
  label.textContent = chart.label === title.textContent.toLowerCase() ? "" : chart.label;
  label.className = "quiet";
  caption.append(title, " ", label);
  const plot = document.createElement("div");
  plot.className = "plot";
  figure.append(caption, plot);
  const section = host.querySelector(`[data-section="${chart.section}"]`);
  (section.querySelector(".charts") ?? section).append(figure);
  reveal(figure);
  return figure;
}
