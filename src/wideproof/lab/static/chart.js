// The chart of an exponent: every measurement, the fitted line and the printed exponent, both axes logarithmic.
import { make, short } from "./parts.js";

const WIDE = 420, HIGH = 230, LEFT = 52, RIGHT = 10, TOP = 10, BOTTOM = 38;

function draw(tag, fields, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(fields)) element.setAttribute(name, typeof value === "number" ? value.toFixed(2) : value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// At most about five round numbers between two ends.
function ticks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const digit of [1, 2, 5]) {
      const value = digit * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push([value, digit]);
    }
  }
  const decades = found.filter(([, digit]) => digit === 1);
  const kept = decades.length >= 3 ? decades : found;
  if (kept.length < 2) return [0.15, 0.5, 0.85].map((share) => low * (high / low) ** share); // hardly anything changes
  const every = Math.ceil(kept.length / 5);
  return kept.filter((_, k) => k % every === 0).map(([value]) => value);
}

export function slopeChart(slope, title) {
  const points = slope.y.flatMap((row) => row.map((y, k) => [slope.x[k], y])).filter(([x, y]) => x > 0 && y > 0 && Number.isFinite(x) && Number.isFinite(y));
  if (points.length < 2) return make("p", { class: "soft small" }, "Too few positive values for a chart.");
  const logs = slope.x.map((x, k) => [Math.log(x), slope.y.map((row) => row[k]).filter((y) => y > 0).map(Math.log)]).filter(([, ys]) => ys.length);
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const middle = [mean(logs.map(([x]) => x)), mean(logs.map(([, ys]) => mean(ys)))];
  const ends = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))];
  const line = (power) => ends.map((x) => Math.exp(middle[1] + power * (Math.log(x) - middle[0])));
  const heights = [...points.map(([, y]) => y), ...line(slope.value), ...line(slope.printed)];
  const [low, high] = [Math.min(...heights) / 1.15, Math.max(...heights) * 1.15];
  const across = (x) => LEFT + 8 + (WIDE - LEFT - RIGHT - 16) * (Math.log(x / ends[0]) / Math.log(ends[1] / ends[0]));
  const up = (y) => HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * (Math.log(y / low) / Math.log(high / low));
  const said = `exponent ${short(slope.value, 3)}, printed ${slope.sense === "equal" ? "" : `${slope.sense} `}${short(slope.printed, 3)}`;
  const chart = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "slope", role: "img", "aria-label": `${title}: ${said}` });
  for (const y of ticks(low, high)) {
    chart.append(draw("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: up(y), y2: up(y) }));
    chart.append(draw("text", { x: LEFT - 6, y: up(y) + 4, "text-anchor": "end" }, short(y, 3)));
  }
  const xs = slope.x.length <= 6 ? slope.x : slope.x.filter((_, k) => k % (Math.floor(slope.x.length / 5) + 1) === 0);
  for (const x of xs) {
    chart.append(draw("line", { class: "grid", x1: across(x), x2: across(x), y1: TOP, y2: HIGH - BOTTOM }));
    chart.append(draw("text", { x: across(x), y: HIGH - BOTTOM + 15, "text-anchor": "middle" }, short(x, 3)));
  }
  chart.append(draw("text", { class: "axis", x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 5, "text-anchor": "middle" }, slope.variable));
  for (const [x, y] of points) chart.append(draw("circle", { class: "point", cx: across(x), cy: up(y), r: 2.6 }));
  for (const [kind, power] of [["fitted", slope.value], ["printed", slope.printed]]) {
    const [from, to] = line(power);
    chart.append(draw("line", { class: kind, x1: across(ends[0]), x2: across(ends[1]), y1: up(from), y2: up(to) }));
  }
  const key = make("figcaption", { class: "key" },
    make("span", {}, make("i", { class: "fitted" }), `fitted ${short(slope.value, 3)} [${slope.interval.map((x) => short(x, 3)).join(", ")}]`),
    make("span", {}, make("i", { class: "dash printed" }), `printed ${slope.sense === "equal" ? "" : `${slope.sense} `}${short(slope.printed, 3)}`));
  return make("figure", { class: "slope" }, chart, key);
}
