// Drawing on canvas, and curves by uPlot, in the colours of the page.
import uPlot from "./uplot.js";

// Where the colours are read: the page, or in somebody else's page the element that holds the bench.
let coloured = document.documentElement;
export const css = (name) => getComputedStyle(coloured).getPropertyValue(name).trim();

// Colours of values from -1 to 1: one hue for each sign, the page's own ground between them.
let shades = null;
export const colouredBy = (element) => { coloured = element; shades = null; };
export const forgetColours = () => { shades = null; };
function shade() {
  if (shades) return shades;
  const read = (name) => css(name).split(",").map(Number);
  const [plus, minus, middle] = [read("--plus"), read("--minus"), read("--middle")];
  shades = new Uint8ClampedArray(3 * 513);
  for (let i = 0; i <= 512; i++) {
    const v = (i - 256) / 256, end = v > 0 ? plus : minus, part = Math.abs(v) ** 0.8;
    for (let c = 0; c < 3; c++) shades[3 * i + c] = middle[c] + part * (end[c] - middle[c]);
  }
  return shades;
}

function image(values, width, height, at) {
  const table = shade(), picture = new ImageData(width, height);
  for (let k = 0; k < width * height; k++) {
    const v = Math.max(-1, Math.min(1, at(k))), i = 3 * Math.round(256 + 256 * (Number.isFinite(v) ? v : 0));
    picture.data.set([table[i], table[i + 1], table[i + 2], 255], 4 * k);
  }
  return picture;
}

// A symmetric matrix with entries from -1 to 1, its rows in the given order.
export function drawMatrix(canvas, values, n, order) {
  if (!n) return;
  canvas.width = canvas.height = n;
  canvas.getContext("2d").putImageData(image(values, n, n, (k) => values[order[(k / n) | 0] * n + order[k % n]]), 0, 0);
}

function sized(canvas) {
  const ratio = devicePixelRatio || 1, width = Math.max(canvas.clientWidth, 40), height = Math.max(canvas.clientHeight, 40);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

// Where a point of [-1, 1]² lies on a canvas of this size, and back.
export const toScreen = (x, y, width, height) => [((x + 1) / 2) * width, ((1 - y) / 2) * height];
export const toPlane = (sx, sy, width, height) => [(2 * sx) / width - 1, 1 - (2 * sy) / height];

// A function of the plane: its values as colours, its zeros as a line, the examples on top.
export function drawPlane(canvas, values, points, { chosen = -1, marked = [] } = {}) {
  const { context, width, height } = sized(canvas);
  if (values) {
    const side = Math.round(Math.sqrt(values.length)), small = new OffscreenCanvas(side, side);
    const flipped = (k) => values[(side - 1 - ((k / side) | 0)) * side + (k % side)] / 1.4;
    small.getContext("2d").putImageData(image(values, side, side, flipped), 0, 0);
    context.imageSmoothingEnabled = true;
    const over = width / (side - 1) / 2;
    context.drawImage(small, -over, -over, width + 2 * over, height + 2 * over);
    zeros(context, values, side, width, height);
  }
  points.forEach(([x, y, label], i) => {
    const [sx, sy] = toScreen(x, y, width, height), big = i === chosen || marked.includes(i);
    context.beginPath();
    context.arc(sx, sy, big ? 7 : 4.5, 0, 7);
    context.fillStyle = `rgb(${css(label > 0 ? "--plus" : "--minus")})`;
    context.fill();
    context.lineWidth = big ? 3 : 2;
    context.strokeStyle = big ? css("--ink") : css("--card");
    context.stroke();
    if (label > 0) { context.beginPath(); context.arc(sx, sy, 1.4, 0, 7); context.fillStyle = css("--card"); context.fill(); }
  });
}

// The line where the function is zero, by marching squares.
function zeros(context, v, side, width, height) {
  const cell = [width / (side - 1), height / (side - 1)], cut = (a, b) => a / (a - b);
  context.beginPath();
  for (let r = 0; r < side - 1; r++) for (let c = 0; c < side - 1; c++) {
    const [a, b, d, e] = [v[r * side + c], v[r * side + c + 1], v[(r + 1) * side + c], v[(r + 1) * side + c + 1]], ends = [];
    if (a * b < 0) ends.push([c + cut(a, b), r]);
    if (d * e < 0) ends.push([c + cut(d, e), r + 1]);
    if (a * d < 0) ends.push([c, r + cut(a, d)]);
    if (b * e < 0) ends.push([c + 1, r + cut(b, e)]);
    for (let k = 0; k + 1 < ends.length; k += 2) {
      context.moveTo(ends[k][0] * cell[0], height - ends[k][1] * cell[1]);
      context.lineTo(ends[k + 1][0] * cell[0], height - ends[k + 1][1] * cell[1]);
    }
  }
  context.lineWidth = 1.5;
  context.strokeStyle = css("--ink");
  context.stroke();
}

// Functions of one number, and the examples; `lines` are [values, colour, dash].
export function drawLine(canvas, lines, points, { chosen = -1, marked = [] } = {}) {
  const { context, width, height } = sized(canvas), scale = 0.7;
  context.strokeStyle = css("--line");
  context.lineWidth = 1;
  for (const y of [-1, 0, 1]) { const [, sy] = toScreen(0, y * scale, width, height); context.beginPath(); context.moveTo(0, sy); context.lineTo(width, sy); context.stroke(); }
  for (const [values, colour, dash] of lines) {
    context.beginPath();
    values.forEach((v, k) => { const [sx, sy] = toScreen((2 * k) / (values.length - 1) - 1, v * scale, width, height); context.lineTo(sx, Math.max(-9, Math.min(height + 9, sy))); });
    context.setLineDash(dash);
    context.strokeStyle = css(colour);
    context.lineWidth = 2;
    context.stroke();
    context.setLineDash([]);
  }
  points.forEach(([x, y], i) => {
    const [sx, sy] = toScreen(x, y * scale, width, height), big = i === chosen || marked.includes(i);
    context.beginPath();
    context.arc(sx, sy, big ? 7 : 4.5, 0, 7);
    context.fillStyle = css("--ink");
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = css("--card");
    context.stroke();
  });
}
drawLine.scale = 0.7;

const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
export const power = (k) => `10${k < 0 ? "⁻" : ""}${[...String(Math.abs(k))].map((d) => digits[d]).join("")}`;
// A number in a few characters.
export function short(v, places = 3) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  if (v === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(v)));
  if (size >= -3 && size < 6) return size >= places ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(places)));
  return `${(v / 10 ** size).toFixed(1)}·${power(size)}`;
}

// Curves over the steps of training. Where `log` is asked for, powers of ten are labelled.
export class Curves {
  constructor(element, series, { xLog = true, yLog = true, height = 210, yRange = null, xLabel = "" } = {}) {
    this.element = element;
    element.curves = this; // what is drawn can be read off the page
    this.options = { series, xLog, yLog, height, yRange, xLabel };
    this.data = [[1], ...series.map(() => [null])];
    this.watch = new ResizeObserver(() => { const w = Math.floor(element.clientWidth); if (this.plot && w > 0 && w !== this.plot.width) this.plot.setSize({ width: w, height }); });
    this.watch.observe(element);
  }
  make() {
    const { series, xLog, yLog, height, yRange } = this.options;
    const axis = (log, size, space) => ({
      stroke: () => css("--soft"), size, space, font: "12px system-ui, sans-serif",
      grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false },
      values: (u, splits) => splits.map((v) => label(v, log)),
      ...(log ? { splits: (u, i, low, high) => powers(low, high), filter: (u, splits) => splits } : {}),
    });
    const options = {
      width: Math.max(Math.floor(this.element.clientWidth), 120), height, legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { size: 6 } },
      scales: { x: { time: false, distr: xLog ? 3 : 1, auto: true }, y: { distr: yLog ? 3 : 1, ...(yRange ? { range: yRange } : {}) } },
      axes: [axis(xLog, 26, 45), axis(yLog, 50, 28)],
      series: [{}, ...series.map((s) => ({ stroke: () => css(s.colour), width: s.width ?? 2, dash: s.dash, spanGaps: true, points: { show: (u, i) => u.data[i].filter((v) => v !== null).length === 1, size: 7 } }))],
    };
    this.plot = new uPlot(options, this.data, this.element);
  }
  set(data) {
    this.data = data;
    if (!this.element.isConnected || !this.element.clientWidth) return;
    if (this.plot) this.plot.setData(data); else this.make();
  }
  redraw() { this.plot?.redraw(false, true); }
  logarithmic(x) {
    if (this.options.xLog === x) return;
    this.options.xLog = x;
    this.plot?.destroy();
    this.plot = null;
    this.set(this.data);
  }
  remove() { this.watch.disconnect(); this.plot?.destroy(); }
}

// Powers of ten between two numbers, not too many; with less than two of them their doubles and fives as well.
function powers(low, high) {
  if (!(low > 0 && high < Infinity)) return []; // there is nothing to draw yet
  const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9), count = to - from + 1;
  const skip = count > 24 ? 6 : count > 14 ? 4 : count > 7 ? 2 : 1, found = [];
  for (let k = from - 1; k <= to; k++) for (const m of count > 2 ? [1] : [1, 2, 5]) {
    const v = m * 10 ** k;
    if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9) && k % skip === 0) found.push(v);
  }
  return found;
}

function label(v, log) {
  if (v === null || v === undefined) return "";
  if (!log) return Math.abs(v) >= 1e4 ? `${short(v / 1000)}k` : String(Number(v.toPrecision(6)));
  const k = Math.round(Math.log10(v));
  if (Math.abs(v / 10 ** k - 1) > 1e-6 || (k >= -2 && k <= 3)) return short(v, 2);
  return power(k);
}
