// The bench without a server: it answers a page as `wideproof.lab.bench` does, in a worker, with the arithmetic of core.js.
// A message is {kind, …, arrays: {name: [values, shape]}}; `send` hands it to the page.
import { ACTIVATIONS, PLANES, copied, dataset, descend, foretold, forward, measure, onSphere, points, proofRatio, sphereFor, start } from "./core.js";

export const MOST = { width: 256, depth: 3, n: 100 };
const CHUNK = 25, LOOK = 250, OWED = 4, FITTED = 1e-22, EARLY = 2048; // milliseconds, frames, a share, steps

const squareRoot = (v) => Math.sqrt(v);
const sum = (values, of) => values.reduce((total, v, i) => total + of(v, i), 0);

// One network in training.
export class Lane {
  constructor(asked, examples) {
    const { width, depth, activation, seed, scale, step } = asked;
    this.network = { dim: 3, width, depth, activation };
    this.weights = start(this.network, seed, scale);
    this.begun = copied(this.weights);
    this.step = 0;
    this.state = "running";
    this.move(examples);
    this.signs = forward(this.network, this.weights, this.data.x, this.data.n).z;
    this.steer(step);
  }
  move({ data, grid }) {
    Object.assign(this, { data, grid });
    this.at = measure(this.network, this.weights, data);
    if (this.signs && this.signs[0].length !== data.n * this.network.width) this.signs = null;
    if (this.share !== undefined) this.foretell();
  }
  // Go on with another multiple of 2/λmax, of the Gram matrix at the start; what is foretold begins anew from here.
  steer(share) {
    this.edge ??= 2 / this.at.S ** 2;
    this.share = share;
    this.eta = share * this.edge;
    this.at = measure(this.network, this.weights, this.data);
    this.foretell();
  }
  foretell() {
    const loss = foretold(this.at, this.eta, this.data.distinct.least), first = loss(0), found = [[], []];
    let k = 0;
    while (k < 1e7 && found[0].length < 900) {
      const value = loss(k);
      if (!(value <= 1e3 * first)) break;
      found[0].push(k + this.step);
      found[1].push(value);
      k = k < 64 ? k + 1 : Math.ceil(k * 1.02);
    }
    this.forecast = found;
  }
  advance(steps) {
    const at = [], loss = [];
    for (let k = 0; k < steps && this.state === "running"; k++) {
      const value = descend(this.network, this.weights, this.data, this.eta);
      this.first ??= value;
      if (!Number.isFinite(value) || value > 1e12 * Math.max(this.first, 1)) { this.state = "diverged"; break; }
      at.push(this.step);
      loss.push(value);
      if (value - this.data.distinct.least <= FITTED * this.first) this.state = "fitted"; else this.step += 1;
    }
    return [at, loss];
  }
  look() {
    const { network, weights, begun, data } = this, at = measure(network, weights, data), found = proofRatio(at);
    this.at = at;
    const parts = [...weights.W, weights.a], before = [...begun.W, begun.a];
    const moved = squareRoot(sum(parts, (one, k) => sum(one, (v, i) => (v - before[k][i]) ** 2)));
    const size = squareRoot(sum(before, (one) => sum(one, (v) => v * v)));
    const z = forward(network, weights, data.x, data.n).z;
    const flipped = this.signs ? sum(z, (one, k) => sum(one, (v, i) => Number(v > 0 !== this.signs[k][i] > 0))) / sum(z, (one) => one.length) : null;
    const { place } = data.distinct, n = data.n, eigenvalues = new Float64Array(n), gram = new Float64Array(n * n);
    eigenvalues.set(at.eigenvalues);
    const diagonal = (g) => Math.sqrt(Math.max(at.gram[g * at.n + g], 1e-300));
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) gram[i * n + j] = at.gram[place[i] * at.n + place[j]] / diagonal(place[i]) / diagonal(place[j]);
    return {
      step: this.step, h: Number.isFinite(found.h) ? found.h : null, obstacle: found.obstacle, residual: at.residual, s: at.s,
      constant: (found.h * at.s ** 2) / at.residual, largest: at.S ** 2, top: this.eta * at.S ** 2, moved,
      relative: moved / size, flipped, arrays: { eigenvalues: [eigenvalues, [n]], gram: [gram, [n, n]] },
    };
  }
  field() { return forward(this.network, this.weights, this.grid.x, this.grid.n).outputs; }
}

// Examples as they are drawn and as the network gets them, with the points at which its function is drawn.
export function examples(rows, side) {
  const n = rows.length, x = Float64Array.from(rows.flatMap(([a, b]) => [a, b])), y = Float64Array.from(rows, ([, , label]) => label);
  const step = sphereFor(x, n, 2), axis = [...Array(side).keys()].map((k) => (2 * k) / (side - 1) - 1);
  const plane = Float64Array.from(axis.flatMap((b) => axis.flatMap((a) => [a, b])));
  return { data: dataset(onSphere(step, x, n), y, n, 3), grid: { x: onSphere(step, plane, side * side), n: side * side } };
}

const among = (value, low, high, what) => { if (!(Number.isInteger(value) && value >= low && value <= high)) throw new Error(`${what} must be a whole number from ${low} to ${high} on this page, got ${value}`); };
function checked({ data, networks }) {
  if (!Object.hasOwn(PLANES, data.name)) throw new Error(`this page has no data set ${data.name}: choose one of ${Object.keys(PLANES).join(", ")}`);
  among(data.points?.length ?? data.n, 2, MOST.n, "the number of examples");
  among(data.seed, 0, 2 ** 31, "the draw");
  for (const { width, depth, activation, seed, step, scale } of networks) {
    among(width, 1, MOST.width, "the width");
    among(depth, 1, MOST.depth, "the depth");
    among(seed, 0, 2 ** 31, "the seed");
    if (!Object.hasOwn(ACTIVATIONS, activation)) throw new Error(`this page has no activation ${activation}: choose one of ${Object.keys(ACTIVATIONS).join(", ")}`);
    if (!(step >= 0 && step <= 8 && scale > 0 && scale <= 1000)) throw new Error("the step size must lie from 0 to 8, and the output scale from 0 to 1000");
  }
}

// The commands of a page, and steps in between; `now` and `later` are the clock and how to be called again.
export class Alone {
  constructor(send, { now = () => performance.now(), later = (act, wait) => setTimeout(act, wait) } = {}) {
    Object.assign(this, { send, now, later, lanes: [], running: false, pace: 0, owed: 0, waiting: [], looked: [], due: false });
  }
  do(command) {
    const doing = { hello: this.hello, configure: this.configure, run: this.run, pause: this.pause, step: this.single, reset: this.reset, pace: this.setPace, steer: this.steer, move: this.move, ack: this.ack }[command.do];
    try { doing?.call(this, command); } catch (error) { this.say("error", { text: error.message }); this.say("ready", { text: "" }); }
  }
  say(kind, fields = {}) { this.send({ kind, arrays: {}, ...fields }); }
  hello() {
    this.say("hello", {
      networks: { "fully-connected": { data: "vectors", groups: ["all"], options: ["width", "depth", "activation"] } },
      activations: Object.keys(ACTIVATIONS), points: Object.keys(PLANES), bundled: [], lines: [], generators: {}, most: MOST,
    });
  }
  configure({ settings }) {
    this.running = false;
    checked(settings);
    const { data, networks } = settings;
    this.settings = settings;
    this.rows = data.points ?? points(data.name, data.n, data.noise, data.seed);
    const ready = this.examples();
    this.lanes = networks.map((one) => new Lane(one, ready));
    this.waiting = [];
    this.showData();
    this.lanes.forEach((lane, i) => {
      const { width, depth, activation } = lane.network, count = sum([...lane.weights.W, lane.weights.a], (one) => one.length);
      this.say("network", { lane: i, text: `fully-connected, width ${width}, depth ${depth}, ${activation}`, weights: count, step_size: lane.eta, largest: lane.at.S ** 2 });
      this.foretell(i);
      this.look(i);
    });
    this.say("ready", { text: "" });
  }
  // Wide and deep networks are drawn on a coarser grid.
  examples() { return examples(this.rows, sum(this.settings.networks, ({ width, depth }) => width * (3 + width * (depth - 1))) > 40000 ? 25 : 41); }
  reset() { this.configure({ settings: this.settings }); }
  run() { if (this.lanes.length) { this.running = true; this.credit = 0; this.paced = this.now(); this.say("running"); this.wake(); } }
  pause() { this.running = false; this.flush(true); this.lanes.forEach((_, i) => this.look(i)); this.say("paused"); }
  single({ steps = 1 }) { this.running = false; this.lanes.forEach((_, i) => this.advance(i, steps)); this.flush(true); this.lanes.forEach((_, i) => this.look(i)); }
  setPace({ pace }) { this.pace = pace; this.credit = 0; this.paced = this.now(); }
  steer({ lane, step }) { this.lanes[lane].steer(step); this.foretell(lane); this.look(lane); }
  // The same number of points goes on, another one begins anew.
  move({ points: rows }) {
    const settings = { ...this.settings, data: { ...this.settings.data, points: rows } }, was = this.running;
    if (rows.length !== this.rows.length) { this.configure({ settings }); if (was) this.run(); return; }
    Object.assign(this, { settings, rows });
    const ready = this.examples();
    this.lanes.forEach((lane, i) => { lane.move(ready); if (lane.state === "fitted") lane.state = "running"; this.foretell(i); this.look(i); });
    this.showData();
  }
  ack() { this.owed = Math.max(0, this.owed - 1); }

  wake() { if (!this.due) { this.due = true; this.later(() => { this.due = false; this.turn(); }, this.pace && this.credit < 1 ? Math.min(20, (1000 * (1 - this.credit)) / this.pace) : 0); } }
  turn() {
    if (!this.running) return;
    const began = this.now();
    this.credit = Math.min(this.credit + (this.pace * (began - this.paced)) / 1000, Math.max(1, this.pace / 5));
    this.paced = began;
    let allowed = this.pace ? Math.floor(this.credit) : Infinity;
    this.credit -= this.pace ? allowed : 0;
    while (allowed-- > 0 && this.now() - began < CHUNK && this.lanes.some((lane) => lane.state === "running")) {
      this.lanes.forEach((lane, i) => { if (lane.state === "running") this.advance(i, 1); });
      if (this.lanes.some((_, i) => this.early(i))) break;
    }
    this.lanes.forEach((lane, i) => {
      const [when, took, step] = this.looked[i];
      if (lane.step !== step && (this.early(i) || this.now() - when > Math.max(LOOK, 3 * took))) this.look(i);
    });
    this.flush(false);
    if (this.lanes.every((lane) => lane.state !== "running")) {
      this.running = false;
      this.flush(true);
      this.lanes.forEach((_, i) => this.look(i));
      this.say("paused", { over: this.lanes.map((lane) => lane.state) });
    } else this.wake();
  }
  // Early on most happens: each doubling of the steps is looked at, where that is quick.
  early(i) { const [, took, step] = this.looked[i], now = this.lanes[i].step; return now <= EARLY && took < LOOK / 4 && now >= Math.max(1, 2 * step); }
  advance(i, steps) { const [at, loss] = this.lanes[i].advance(steps); this.waiting.push([i, at, loss]); }
  flush(whatever) {
    if (this.owed >= OWED && !whatever) return;
    this.lanes.forEach((lane, i) => {
      const own = this.waiting.filter(([j]) => j === i), step = own.flatMap(([, at]) => at), loss = own.flatMap(([, , values]) => values);
      if (!own.length) return;
      this.owed += 1;
      this.say("points", { lane: i, at: lane.step, state: lane.state, arrays: { step: [Float64Array.from(step), [step.length]], loss: [Float64Array.from(loss), [loss.length]] } });
    });
    this.waiting = [];
  }
  look(i) {
    const lane = this.lanes[i], began = this.now();
    if (lane.state === "diverged") return;
    this.say("look", { lane: i, ...lane.look() });
    const field = lane.field();
    this.say("field", { lane: i, step: lane.step, arrays: { network: [field, [field.length]] } });
    this.looked[i] = [this.now(), this.now() - began, lane.step];
  }
  foretell(i) {
    const [step, loss] = this.lanes[i].forecast;
    this.say("forecast", { lane: i, origin: step[0] ?? 0, arrays: { step: [Float64Array.from(step), [step.length]], loss: [Float64Array.from(loss), [loss.length]] } });
  }
  showData() {
    const n = this.rows.length, target = Float64Array.from(this.rows, (row) => row[2]);
    this.say("data", {
      n, name: this.settings.data.name, task: "binary", classes: [-1, 1], text: `${n} points in the plane`, dimension: 2, inputs: [3], notes: [], prepared: "sphere(4)", movable: true,
      arrays: { points: [Float64Array.from(this.rows.flatMap(([x, y]) => [x, y])), [n, 2]], labels: [target.map((v) => Number(v > 0)), [n]], target: [target, [n]] },
    });
  }
}

// In a worker: commands come as messages, and so do the answers.
if (typeof WorkerGlobalScope !== "undefined") {
  const bench = new Alone((message) => postMessage(message));
  onmessage = ({ data }) => bench.do(data);
}
