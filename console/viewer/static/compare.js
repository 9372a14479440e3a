// The curves of several runs in common charts.
import { Board } from "./chart.js";

const host = document.getElementById("compare-charts");
if (host) start();

async function start() {
  const runs = [...host.querySelectorAll("[data-series]")];
  const answers = await Promise.all(runs.map((one) => fetch(one.dataset.series)));
  const all = await Promise.all(answers.map((one) => (one.ok ? one.json() : null)));
  const board = new Board();
  const charts = new Map();
  all.forEach((series, color) => {
    for (const chart of series?.charts ?? []) {
      if (chart.is_stacked || chart.lines.length > 1 && chart.title.startsWith("Parts")) continue;
      const found = charts.get(chart.title) ?? { ...chart, lines: [], points: [] };
      const line = chart.lines[0];
      found.lines.push({ label: runs[color].dataset.run, color, x: series.updates, y: series.values[line.metric] });
      if (chart.has_held_out) found.points.push(...series.evaluations.map((one) => ({ x: Math.max(one.update, 0), y: one.rate.success, low: one.rate.low, high: one.rate.high, label: `${runs[color].dataset.run}, held out`, color })));
      charts.set(chart.title, found);
    }
  });
  for (const chart of charts.values()) board.add(figureOf(chart), chart);
  board.draw();
}

function figureOf(chart) {
  const figure = document.createElement("figure");
  figure.className = chart.title === "Success" ? "chart large" : "chart";
  const caption = document.createElement("figcaption"), title = document.createElement("b");
  title.textContent = chart.title;
  caption.append(title);
  const plot = document.createElement("div");
  plot.className = "plot";
  figure.append(caption, plot);
  host.append(figure);
  return figure;
}
