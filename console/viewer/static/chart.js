// Small charts over updates as SVG: hover shows the values in every chart, a drag zooms all, a click opens the update.
const SVG = "http://www.w3.org/2000/svg";
const LEFT = 38, RIGHT = 10, TOP = 10, BOTTOM = 20;

function node(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
}

function element(name, parent, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent?.append(made);
  return made;
}

export function format(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "rate") return `${(100 * value).toFixed(value && Math.abs(value) < 0.1 ? 1 : 0)} %`;
  const size = Math.abs(value);
  const text = size >= 1e5 ? value.toExponential(1) : size >= 1000 ? Math.round(value).toLocaleString("en")
    : size && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return (unit === "seconds" ? `${text} s` : text).replace("-", "−");
}

// Beyond these, the difference of two numbers is infinite, or nothing.
function drawable(value) {
  return Math.abs(value) < 1e-300 ? 0 : Math.min(Math.max(value, -1e300), 1e300);
}

// Exponential moving average without the bias of its start; a missing value keeps its gap.
function smoothed(values, rate) {
  let sum = 0, weight = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    sum = rate * sum + (1 - rate) * value;
    weight = rate * weight + (1 - rate);
    return sum / weight;
  });
}

// A call with an argument per value fails from about 100,000 of them.
function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const one of values) { low = Math.min(low, one); high = Math.max(high, one); }
  return [low, high];
}

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9) * step;
  const found = Array.from({ length: count + 2 }, (_, place) => first + place * step).filter((at) => at <= high + step * 1e-9);
  return found.map((at) => (Math.abs(at) < step * 1e-9 ? 0 : at));
}

// Show a figure that has a value, and the section that it is in; the section names its charts while it is folded.
export function reveal(figure) {
  figure.hidden = false;
  const fold = figure.closest(".fold");
  if (!fold) return;
  fold.hidden = false;
  const titles = [...fold.querySelectorAll("figure:not([hidden])")].map((one) => one.dataset.chart);
  fold.querySelector(".titles").textContent = [...new Set(titles)].join(" · ");
}

class Chart {
  constructor(figure, spec, board) {
    Object.assign(this, spec, { board });
    this.plot = figure.querySelector(".plot");
    this.svg = node("svg", { role: "slider", tabindex: 0, "aria-label": spec.title, "aria-valuenow": 0, "aria-valuetext": "no value chosen" }, this.plot);
    this.tip = element("div", this.plot, undefined, "tip");
    this.tip.hidden = true;
    this.key = element("div", figure, undefined, "key");
    this.now = element("span", figure.querySelector("figcaption"), undefined, "now");
    this.showKey();
    this.listen();
  }

  // The lines with their newest values; a single line has its value beside the title.
  showKey() {
    const key = this.key, last = (values) => format(values.findLast((one) => one !== null && one !== undefined), this.unit);
    key.replaceChildren();
    const isAlone = this.lines.length < 2 && !this.points?.length && !this.lines[0]?.metric?.includes("/");
    this.now.textContent = isAlone && this.lines.length ? last(this.lines[0].y) : "";
    if (isAlone) return;
    const add = (mark, label, value) => {
      const entry = element("span", key);
      element("i", entry, undefined, mark);
      entry.append(`${label} `);
      element("b", entry, value);
    };
    for (const line of this.lines) add(`c${line.color}`, line.label, last(line.y));
    if (this.points?.length && this.pointsLabel) add("dot c1", this.pointsLabel, last(this.points.map((one) => one.y)));
  }

  listen() {
    const at = (event) => this.unscale(event.clientX - this.svg.getBoundingClientRect().left);
    let from = null;
    this.svg.addEventListener("pointermove", (event) => {
      this.board.hover(at(event), this);
      if (from !== null) this.brush(from, at(event));
    });
    this.svg.addEventListener("pointerleave", () => { if (from === null) this.board.hover(null, this); });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      from = at(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const [low, high] = [from, at(event)].sort((a, b) => a - b);
      from = null;
      this.rect?.remove();
      if (this.scale(high) - this.scale(low) > 8) this.board.zoom([low, high]);
      else this.board.open(this.nearest(high));
    });
    this.svg.addEventListener("dblclick", () => this.board.zoom(null));
    this.svg.addEventListener("blur", () => this.board.hover(null, this));
    this.svg.addEventListener("keydown", (event) => this.press(event));
  }

  // The arrows move the cursor by one value, Home and End to an end, and Enter opens the update.
  press(event) {
    const all = [...new Set(this.lines.flatMap((line) => line.x))].filter((x) => x >= this.x0 && x <= this.x1).sort((a, b) => a - b);
    const place = all.indexOf(this.at), last = all.length - 1;
    const moves = { ArrowLeft: place < 0 ? last : Math.max(place - 1, 0), ArrowRight: Math.min(place + 1, last), Home: 0, End: last };
    if (event.key === "Enter" && place >= 0) this.board.open(this.at);
    else if (event.key in moves && all.length) this.board.hover(all[moves[event.key]], this);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  brush(from, to) {
    this.rect?.remove();
    const [low, high] = [this.scale(from), this.scale(to)].sort((a, b) => a - b);
    this.rect = node("rect", { class: "brush", x: low, y: TOP, width: high - low, height: this.bottom - TOP }, this.svg);
  }

  scale(x) { return LEFT + ((x - this.x0) / (this.x1 - this.x0)) * (this.right - LEFT); }
  unscale(pixel) { return this.x0 + ((pixel - LEFT) / (this.right - LEFT)) * (this.x1 - this.x0); }
  y(value) {
    const of = this.log ? Math.log10 : (one) => one;
    const share = (of(drawable(value)) - of(this.y0)) / (of(this.y1) - of(this.y0));
    return this.bottom - Math.min(Math.max(share, -1e4), 1e4) * (this.bottom - TOP);
  }

  nearest(x, columns = this.lines.map((line) => line.x)) {
    let best = null;
    for (const column of columns) for (const one of column) if (best === null || Math.abs(one - x) < Math.abs(best - x)) best = one;
    return best;
  }

  // Values of the lines between both ends of the zoom, as they are drawn.
  prepare() {
    const [low, high] = this.board.domain;
    this.shown = this.lines.map((line) => {
      const y = this.stacked ? line.y.map((one) => one ?? 0) : line.y;
      const drawn = y.map((one) => (one === null || one === undefined ? null : drawable(one)));
      return { ...line, y, drawn: this.board.smoothing ? smoothed(drawn, this.board.smoothing) : drawn };
    });
    if (this.stacked) {
      for (let place = 1; place < this.shown.length; place += 1) {
        this.shown[place].drawn = this.shown[place].drawn.map((one, at) => one + (this.shown[place - 1].drawn[at] ?? 0));
      }
    }
    const within = (x) => x >= low && x <= high;
    const values = this.shown.flatMap((line) => line.drawn.filter((value, at) => value !== null && within(line.x[at])));
    for (const point of this.points ?? []) if (within(point.x)) values.push(point.low ?? point.y, point.high ?? point.y);
    this.log = this.board.log && this.unit !== "rate" && !this.stacked && values.some((one) => one > 0);
    const usable = this.log ? values.filter((one) => one > 0) : values;
    let [y0, y1] = usable.length ? extent(usable) : [0, 1];
    if (this.unit === "rate") [y0, y1] = [0, this.title === "Success" ? 1 : Math.max(y1 * 1.08, 0.02)];
    else if (this.log) [y0, y1] = [y0 / 1.2, y1 * 1.2];
    else {
      if (y0 > 0 && (this.stacked || y0 < 0.6 * y1)) y0 = 0;
      const pad = y1 > y0 ? 0.06 * (y1 - y0) : Math.abs(y1) * 0.1 || 1;
      [y0, y1] = [y0 === 0 ? 0 : y0 - pad, y1 + pad];
    }
    Object.assign(this, { x0: low, x1: high > low ? high : low + 1, y0, y1 });
  }

  // A value between two missing ones has no line to a neighbor.
  isAlone(ys, at) {
    const has = (place) => ys[place] !== null && ys[place] !== undefined && (!this.log || ys[place] > 0);
    return has(at) && !has(at - 1) && !has(at + 1);
  }

  path(xs, ys) {
    let text = "", pen = "M";
    xs.forEach((x, at) => {
      const value = ys[at];
      if (value === null || value === undefined || (this.log && value <= 0)) { pen = "M"; return; }
      text += `${pen}${this.scale(x).toFixed(1)},${this.y(value).toFixed(1)}`;
      pen = "L";
    });
    return text;
  }

  draw() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (!width) return;
    Object.assign(this, { right: width - RIGHT, bottom: height - BOTTOM });
    this.prepare();
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawAxes(height);
    this.drawAxisName();
    this.svg.setAttribute("aria-valuemin", this.x0);
    this.svg.setAttribute("aria-valuemax", this.x1);
    this.showKey();
    const clip = `clip-${this.place}`;
    node("rect", { x: LEFT, y: TOP - 4, width: this.right - LEFT + 4, height: this.bottom - TOP + 6 }, node("clipPath", { id: clip }, node("defs", {}, this.svg)));
    const inside = node("g", { "clip-path": `url(#${clip})` }, this.svg);
    if (this.stacked) this.drawAreas(inside);
    else for (const line of this.shown) {
      if (this.board.smoothing) node("path", { class: `raw c${line.color}`, d: this.path(line.x, line.y) }, inside);
      node("path", { class: `curve c${line.color}`, d: this.path(line.x, line.drawn) }, inside);
      line.drawn.forEach((value, at) => {
        if (this.isAlone(line.drawn, at) || (value !== null && at === line.drawn.length - 1)) node("circle", { class: `point c${line.color}`, cx: this.scale(line.x[at]), cy: this.y(value), r: 3 }, inside);
      });
    }
    for (const point of this.points ?? []) {
      if (point.y === null || point.x < this.x0 || point.x > this.x1) continue;
      const x = this.scale(point.x);
      if (point.low !== null && point.high !== null) {
        const [low, high] = [this.y(point.low), this.y(point.high)];
        node("path", { class: `bars c${point.color}`, d: `M${x},${low}V${high}M${x - 4},${low}h8M${x - 4},${high}h8` }, this.svg);
      }
      node("circle", { class: `point c${point.color}`, cx: x, cy: this.y(point.y), r: 4.5 }, this.svg);
    }
    this.cross = node("line", { class: "cross", x1: 0, x2: 0, y1: TOP, y2: this.bottom, visibility: "hidden" }, this.svg);
  }

  drawAxes(height) {
    const marks = this.log
      ? Array.from({ length: 13 }, (_, at) => 10 ** (at - 7)).filter((one) => one >= this.y0 && one <= this.y1)
      : ticks(this.y0, this.y1, height > 300 ? 6 : 3);
    for (const value of marks) {
      const y = this.y(value);
      node("line", { class: value ? "grid" : "zero-line", x1: LEFT, x2: this.right, y1: y, y2: y }, this.svg);
      node("text", { class: "axis", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, this.svg, format(value, this.unit));
    }
    for (const value of ticks(this.x0, this.x1, this.plot.clientWidth > 500 ? 8 : 4)) {
      if (Number.isInteger(value)) node("text", { class: "axis", x: this.scale(value), y: height - 4, "text-anchor": "middle" }, this.svg, this.board.tick?.(value) ?? value.toLocaleString("en"));
    }
  }

  drawAxisName() {
    if (this.plot.clientHeight > 300) node("text", { class: "axis", x: this.right, y: this.bottom - 6, "text-anchor": "end" }, this.svg, this.board.axis);
  }

  drawAreas(inside) {
    const zero = this.y(Math.max(this.y0, 0));
    [...this.shown].reverse().forEach((line) => {
      const top = this.path(line.x, line.drawn);
      if (top) node("path", { class: `area c${line.color}`, d: `${top}L${this.scale(line.x.at(-1))},${zero}L${this.scale(line.x[0])},${zero}Z` }, inside);
    });
  }

  hover(x, isSource) {
    if (!this.cross) return;
    const columns = [...this.lines.map((line) => line.x), (this.points ?? []).map((one) => one.x)];
    const at = x === null ? null : this.nearest(Math.min(Math.max(x, this.x0), this.x1), columns);
    this.at = at;
    const seen = at !== null && at >= this.x0 && at <= this.x1;
    this.cross.setAttribute("visibility", seen ? "visible" : "hidden");
    this.tip.hidden = !seen;
    if (!seen) return;
    const left = this.scale(at);
    this.cross.setAttribute("x1", left);
    this.cross.setAttribute("x2", left);
    this.tip.replaceChildren();
    if (isSource) element("b", this.tip, this.board.name(at));
    for (const line of this.shown) {
      const place = line.x.indexOf(at);
      if (place < 0 || line.y[place] === null) continue;
      const row = element("div", this.tip);
      if (this.lines.length > 1) element("i", row, undefined, `dot c${line.color}`);
      row.append(`${this.lines.length > 1 ? `${line.label} ` : ""}${format(line.y[place], this.unit)}`);
    }
    for (const point of this.points ?? []) if (point.x === at) element("div", this.tip, `${point.label} ${format(point.y, this.unit)}`);
    if (isSource) {
      this.svg.setAttribute("aria-valuenow", at);
      this.svg.setAttribute("aria-valuetext", [...this.tip.childNodes].map((one) => one.textContent).join(", "));
    }
    const flips = left > this.right - 130;
    this.tip.style.left = flips ? "auto" : `${left + 12}px`;
    this.tip.style.right = flips ? `${this.plot.clientWidth - left + 12}px` : "auto";
  }
}

// The charts of a page: they share zoom, smoothing, scale and the crosshair, all of which the URL keeps.
export class Board {
  constructor(open) {
    this.charts = [];
    this.axis = "update";
    this.name = (x) => `update ${x}`;
    this.open = (x) => { if (x !== null && open) open(x); };
    const given = new URLSearchParams(location.search);
    this.smoothing = Math.min(Math.max(Number(given.get("smooth")) || 0, 0), 0.95);
    this.log = given.get("log") === "1";
    const ends = ["from", "to"].map((name) => parseFloat(given.get(name)));
    this.zoomed = ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
    this.wire();
  }

  wire() {
    const slider = document.getElementById("smoothing"), log = document.getElementById("log");
    this.reset = document.getElementById("reset");
    slider.value = this.smoothing;
    log.checked = this.log;
    slider.addEventListener("input", () => { this.smoothing = Number(slider.value); this.changed(); });
    log.addEventListener("change", () => { this.log = log.checked; this.changed(); });
    this.reset.addEventListener("click", () => this.zoom(null));
    this.folds = new Map([...document.querySelectorAll(".fold")].map((one) => [one, one.open]));
    for (const fold of this.folds.keys()) fold.addEventListener("toggle", () => this.toggled(fold));
    new ResizeObserver(() => this.draw()).observe(document.querySelector("main"));
  }

  add(figure, spec) {
    const chart = new Chart(figure, { ...spec, place: this.charts.length }, this);
    this.charts.push(chart);
    return chart;
  }

  get domain() {
    if (this.zoomed) return this.zoomed;
    const all = this.charts.flatMap((chart) => [...chart.lines.flatMap((line) => [line.x[0], line.x.at(-1)]), ...(chart.points ?? []).map((one) => one.x)]).filter((one) => one !== undefined);
    return all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  }

  zoom(domain) {
    this.zoomed = domain;
    this.changed();
    this.onzoom?.();
  }

  hover(x, source) { for (const chart of this.charts) chart.hover(x, chart === source); }

  // A browser reports each section that a page opens with, too.
  toggled(fold) {
    if (this.folds.get(fold) === fold.open) return;
    this.folds.set(fold, fold.open);
    const open = [...this.folds.keys()].filter((one) => one.open).map((one) => one.dataset.section);
    this.keep({ open: open.join(",") || "none" });
  }

  changed() {
    this.keep({ smooth: this.smoothing, log: this.log ? "1" : "", from: this.zoomed?.[0].toFixed(1), to: this.zoomed?.[1].toFixed(1) });
  }

  keep(values) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(values)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    this.draw();
  }

  draw() {
    this.reset.disabled = !this.zoomed;
    for (const chart of this.charts) chart.draw();
  }
}
