// The bench: data, one or two networks, and what is seen of them while they train. It speaks through `send` and hears
// messages of the worker through `hear`; where they come from (a socket, a notebook) is not its business.
import { Curves, drawLine, drawMatrix, drawPlane, forgetColours, power, short, toPlane, toScreen } from "./draw.js";
import { complete, defaults, read, write } from "./state.js";
import { stations } from "./tour.js";

const LANES = ["a", "b"];
const PACES = [[1, "1 step a second"], [10, "10 a second"], [60, "60 a second"], [400, "400 a second"], [0, "full speed"]];
const COLOURS = ["--a", "--b"];

// A tag with properties and children; text is always text.
function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key in element && typeof value !== "string") element[key] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const option = (value, text = value) => h("option", { value }, String(text));
const later = (wait, act) => { let timer; return (...given) => { clearTimeout(timer); timer = setTimeout(() => act(...given), wait); }; };

// The steps at which curves are drawn: all of the first hundred, then each one per cent later than the one before.
const GRID = [...Array(100).keys()];
while (GRID.at(-1) < 2e9) GRID.push(Math.ceil(GRID.at(-1) * 1.01));
const place = (step) => { if (step < 100) return step; let low = 99, high = GRID.length - 1; while (low < high) { const middle = (low + high) >> 1; if (GRID[middle] < step) low = middle + 1; else high = middle; } return low; };

class Lane {
  constructor() { this.reset(); }
  reset() {
    Object.assign(this, { loss: [], step: 0, state: "running", forecast: null, twin: null, looks: [], start: null, field: null, twinField: null, gram: null, proof: null, kept: null, rate: 0, info: null });
  }
  add(steps, losses) {
    for (let k = 0; k < steps.length; k++) this.loss[place(steps[k])] = losses[k] > 0 ? losses[k] : null;
  }
}

export class Bench {
  // `alone`: nobody answers but a worker of the page, which has no proofs and only networks of its own (alone.js).
  constructor({ send, files = false, alone = false, tour = stations, state = "", remember = () => {} }) {
    Object.assign(this, { send, files, alone, tour, remember, settings: read(state), lanes: [new Lane(), new Lane()], running: false, pace: 60, tab: "", known: null, data: null, tool: "move", chosen: -1, marked: [], station: -1, points: 0 });
    this.element = h("div", { class: "bench-room" });
    this.dirty = new Set();
    this.configure = later(200, () => this.ask());
    this.build();
    this.themed = () => { forgetColours(); for (const curve of Object.values(this.curves)) curve.redraw(); this.draw("fields", "grams"); };
    addEventListener("themechange", this.themed);
    this.resized = later(100, () => this.draw("fields"));
    addEventListener("resize", this.resized);
  }

  remove() { removeEventListener("themechange", this.themed); removeEventListener("resize", this.resized); for (const curve of Object.values(this.curves)) curve.remove(); this.gone = true; }
  get count() { return this.settings.networks.length; }
  own() { return this.lanes.slice(0, this.count); }

  // What the worker says.

  hear(message) {
    const lane = this.lanes[message.lane ?? 0];
    const heard = {
      hello: () => { this.known = message; if (message.settings) this.settings = complete(message.settings); this.parts.tour.hidden = Boolean(message.given); this.fill(); this.ask(); },
      tab: () => { this.tab = message.tab; },
      error: () => { this.error(message.text); this.busy(""); },
      lost: () => { this.error(message.text); this.lost = true; this.playing(false); },
      gone: () => { this.error(message.text); this.playing(false); },
      busy: () => this.busy(message.text),
      ready: () => { this.busy(""); if (this.restart) { this.restart = false; this.play(true); } },
      running: () => this.playing(true),
      paused: () => { this.playing(false); this.over = message.over ?? null; this.draw("meters"); },
      data: () => this.hearData(message),
      network: () => { this.remind(lane); lane.reset(); lane.info = message; this.describe(); if (message.lane === 0 && !message.again) { if (!this.lost) this.error(""); this.lost = false; this.points = 0; } this.draw("loss", "looks", "meters", "grams", "fields", "count"); },
      forecast: () => { lane.forecast = message; this.draw("loss"); },
      twin: () => { lane.twin = message; this.draw("loss"); },
      points: () => this.hearPoints(lane, message),
      look: () => this.hearLook(lane, message),
      field: () => { lane.field = message.arrays.network; lane.twinField = message.arrays.twin ?? null; this.draw("fields"); },
      proof: () => this.hearProof(lane, message),
      kept: () => { lane.kept = message.folder; this.draw("meters"); },
      chosen: () => this.take(message),
      uploaded: () => {},
    }[message.kind];
    heard?.();
  }

  // A proof that is there stays while another one, from the first step, is made.
  hearProof(lane, message) {
    const stays = lane.proof?.state === "proved" && message.from_start && message.state !== "proved";
    lane.following = stays && message.state === "proving" ? `${message.text}…` : stays ? `from the first step: ${message.obstacle || message.text}` : "";
    if (!stays) lane.proof = { ...lane.proof, ...message, obstacle: message.obstacle ?? "" };
    if (message.state === "proved") lane.kept = null;
    this.draw("meters");
  }

  // What was proved in this tab stays at hand when the bench is set anew.
  remind(lane) {
    if (!this.files || lane.proof?.state !== "proved" || !lane.proof.folder) return;
    this.earlier = [...(this.earlier ?? []), { folder: lane.proof.folder, text: lane.proof.text.replace(/^Proved: /, "") }].slice(-5);
  }

  hearPoints(lane, { arrays: { step, loss }, at, state }) {
    lane.add(step, loss);
    const now = performance.now();
    lane.times = [...(lane.times ?? []).filter(([t]) => now - t < 1000), [now, at]];
    const [first] = lane.times;
    lane.rate = now > first[0] ? ((at - first[1]) / (now - first[0])) * 1000 : 0;
    lane.step = at;
    lane.state = state;
    lane.last = loss.at(-1);
    this.points += step.length;
    this.owing = (this.owing ?? 0) + 1;
    this.draw("loss", "count");
  }

  hearLook(lane, message) {
    const { step, arrays } = message;
    if (lane.looks.length && lane.looks.at(-1).step >= step) lane.looks = lane.looks.filter((look) => look.step < step);
    lane.looks.push(message);
    if (lane.looks.length > 900) lane.looks = lane.looks.filter((_, k) => k % 2 === 0 || k > 850);
    lane.start ??= arrays.eigenvalues;
    lane.gram = { values: arrays.gram, n: arrays.gram.shape[0] };
    if (lane.looks.length > 2) for (const old of lane.looks.slice(0, -1)) old.arrays = { eigenvalues: null };
    lane.now = arrays.eigenvalues;
    this.draw("looks", "meters", "grams");
  }

  hearData(message) {
    const { points, target, labels } = message.arrays, wide = points.shape[1];
    this.data = message;
    const line = message.task === "regression" && message.dimension === 1;
    this.data.line = line;
    this.data.points = [...Array(message.n).keys()].map((i) => [points[wide * i] ?? 0, line ? target[i] : points[wide * i + 1] ?? 0, message.task === "binary" ? (labels[i] ? 1 : -1) : 1]);
    this.data.order = [...Array(message.n).keys()].sort((i, j) => labels[i] - labels[j] || (line ? points[wide * i] - points[wide * j] : 0));
    if (this.dragged === undefined) this.draw("fields", "grams");
    this.draw("meters");
    this.describe();
  }

  // What the user asks for.

  ask() {
    if (!this.known) return;
    const { data, networks } = this.settings;
    this.remember(write(this.settings));
    this.restart = this.restart || this.running;
    this.playing(false);
    this.send({ do: "configure", settings: { data, networks } });
    this.send({ do: "pace", pace: this.pace });
  }
  play(on) { this.send({ do: on ? "run" : "pause" }); this.playing(on); }
  pause() { if (this.running) this.play(false); }
  restore(state) { this.settings = read(state); this.controls(); this.ask(); }
  visit(k) {
    this.station = k;
    this.tell("");
    const { settings, pace } = this.tour[k];
    this.settings = complete(settings);
    this.pace = pace;
    this.running = this.restart = false;
    this.controls();
    this.ask();
    this.drawTour();
  }
  // Other data: the station is over, and training waits to be started.
  leaveTour() {
    this.tell("");
    this.running = this.restart = false;
    this.station = -1;
    this.drawTour();
  }
  change(part, key, value, i = 0) {
    const values = part === "data" ? this.settings.data : this.settings.networks[i];
    values[key] = value;
    if (part === "data" && ["kind", "name", "n", "noise", "seed"].includes(key)) values.points = null;
    if (part === "network" && key === "name") this.suit(value);
    this.remember(write(this.settings));
    this.describe();
    if (part === "network" && key === "step" && this.lanes[i].info) { this.steer ??= later(60, (which, step) => this.send({ do: "steer", lane: which, step })); this.steer(i, value); return; }
    this.configure();
  }
  // Images and sequences need other data than points; both networks take the same examples.
  suit(name) {
    const kind = this.known.networks[name]?.data, data = this.settings.data;
    if (kind !== "vectors" && !["file", "given"].includes(data.kind) && data.name !== "digits") {
      this.tell(`${name} takes ${kind}: the data are now digits.`);
      Object.assign(data, { ...defaults.data, kind: "bundled", name: "digits", classes: "0,1", n: 20 });
    }
    for (const network of this.settings.networks) if (this.known.networks[network.name]?.data !== kind) network.name = name;
    this.controls();
  }
  take({ prepare, name, width, depth, activation, seed, notes }) {
    this.settings.data.prepare = prepare;
    this.settings.networks = [{ ...this.settings.networks[0], name, width, depth, activation, seed, trained: "all", scale: 1 }];
    this.controls();
    this.ask();
    this.tell([`Chosen: ${name}, ${width} units, depth ${depth}, ${activation}, data prepared by ${prepare}.`, ...notes].join(" "));
  }
  movePoints(points) {
    this.settings.data.points = points;
    this.data.points = points;
    this.data.arrays = null;
    this.remember(write(this.settings));
    this.sendMove ??= later(30, () => this.send({ do: "move", points: this.settings.data.points }));
    this.sendMove();
    this.draw("fields");
  }
  async upload(file) {
    if (!this.files) return;
    this.busy(`reading ${file.name}`);
    const answer = await fetch(`upload?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file }).catch(() => null);
    const found = answer && await answer.json().catch(() => null);
    this.busy("");
    if (!answer?.ok || !found) { this.error(found?.error ?? "the file did not arrive: is it larger than the lab takes?"); return; }
    this.table = found;
    this.leaveTour();
    this.settings.data = { ...defaults.data, kind: "file", name: found.id, n: 300, target: found.columns.at(-1) };
    this.controls();
    this.ask();
  }

  // The elements.

  build() {
    this.parts = {};
    const p = this.parts;
    p.tour = h("section", { class: "tour card", "aria-label": "Guided tour" });
    p.error = h("div", { role: "alert" });
    p.note = h("p", { class: "card small", role: "status", hidden: true });
    p.controls = h("div", { class: "controls" });
    p.run = h("button", { class: "main", type: "button", onclick: () => this.play(!this.running) }, "Run");
    p.step = h("button", { type: "button", onclick: () => { this.playing(false); this.send({ do: "step", steps: 1 }); } }, "Step");
    p.reset = h("button", { type: "button", onclick: () => { this.restart = false; this.playing(false); this.send({ do: "reset" }); } }, "Reset");
    p.pace = h("select", { "aria-label": "Speed", onchange: (event) => { this.pace = Number(event.target.value); this.send({ do: "pace", pace: this.pace }); } }, ...PACES.map(([value, text]) => option(value, text)));
    p.second = h("button", { type: "button", onclick: () => this.twoNetworks() }, "Compare with a second network");
    p.busy = h("span", { class: "soft", role: "status" });
    p.count = h("span", { class: "count" });
    const transport = h("div", { class: "transport" }, p.run, p.step, p.reset, h("label", { class: "pace" }, p.pace), p.second, p.busy, p.count);
    p.meters = h("section", { class: "card full", "aria-label": "Proof meter" });
    p.earlier = h("details", { class: "card full small", hidden: true }, h("summary", {}, "Proved earlier in this tab"), p.earlierList = h("ul", {}));
    const card = (key, title, note, kind = "") => {
      p[`${key}Note`] = h("span", { class: "note" }, note);
      p[key] = h("div", { class: "chart" });
      p[`${key}Key`] = h("div", { class: "key" });
      return h("section", { class: `card ${kind}`, "aria-label": title }, h("header", {}, h("h2", {}, title), p[`${key}Note`]), p[key], p[`${key}Key`]);
    };
    p.logs = h("button", { class: "quiet small", type: "button", "aria-pressed": "true", onclick: () => this.logSteps() }, "log steps");
    const loss = card("loss", "Loss", "", "half");
    loss.querySelector("header").append(p.logs);
    p.function = h("section", { class: "card half", "aria-label": "The function" }, h("header", {}, h("h2", {}, "What the network computes"), h("span", { class: "note" }, "drag, add or relabel points while it trains")), p.tools = h("div", { class: "tools", role: "toolbar", "aria-label": "Points" }), p.fields = h("div", { class: "canvases" }));
    p.about = h("section", { class: "card half about", "aria-label": "Data" }, h("header", {}, h("h2", {}, "The examples")), p.aboutText = h("div", { class: "small" }));
    p.gram = h("section", { class: "card gram-card", "aria-label": "Gram matrix" }, h("header", {}, h("h2", {}, "Gram matrix"), h("span", { class: "note" }, "how alike examples are")), p.grams = h("div", { class: "canvases" }));
    p.panels = h("div", { class: "panels" }, p.meters, p.earlier, loss, p.function, p.about, p.gram,
      card("spectrum", "Eigenvalues", "of the Gram matrix"), card("ratio", "Proof ratio h", this.alone ? "below ½ a theorem applies, up to rounding" : "below ½ it is a theorem"),
      card("moved", "Distance moved", "in lengths of the first weights", ""), card("flipped", "Signs flipped", "share of units and examples", ""), card("top", "Step size × λmax", "unstable above 2", ""));
    this.element.append(p.tour, p.error, p.note, h("div", { class: "bench" }, p.controls, h("div", {}, transport, p.panels)));
    this.curves = {};
    this.makeCurves();
    this.makeTools();
    this.drawTour();
    if (!this.files) return;
    this.element.addEventListener("dragover", (event) => { event.preventDefault(); this.element.classList.add("dropping"); });
    this.element.addEventListener("dragleave", () => this.element.classList.remove("dropping"));
    this.element.addEventListener("drop", (event) => { event.preventDefault(); this.element.classList.remove("dropping"); const [file] = event.dataTransfer.files; if (file) this.upload(file); });
  }

  makeCurves() {
    for (const curve of Object.values(this.curves)) curve.remove();
    for (const key of ["loss", "spectrum", "ratio", "moved", "flipped", "top"]) this.parts[key].replaceChildren();
    const lanes = COLOURS.slice(0, this.count), each = (more = {}) => lanes.map((colour) => ({ colour, ...more }));
    const xLog = this.parts.logs.getAttribute("aria-pressed") === "true", p = this.parts;
    this.curves = {
      loss: new Curves(p.loss, [...each(), ...each({ dash: [7, 5], width: 1.7 }), ...lanes.map(() => ({ colour: "--twin", dash: [2, 4], width: 1.5 }))], { xLog, height: 290, yRange: (u, low, high) => [Math.max(low, 1e-30) / 2, high * 2] }),
      spectrum: new Curves(p.spectrum, lanes.flatMap((colour) => [{ colour, width: 2 }, { colour: "--twin", width: 1.5, dash: [3, 4] }]), { xLog: false, yRange: (u, low, high) => [Math.max(low, high * 1e-18) / 1.5, high * 1.5] }),
      ratio: new Curves(p.ratio, [...each(), { colour: "--proven", dash: [5, 4], width: 1.5 }], { xLog, yRange: (u, low, high) => [Math.min(low, 0.1) / 2, Math.max(high, 10) * 2] }),
      moved: new Curves(p.moved, each(), { xLog, yLog: false, yRange: (u, low, high) => [0, Math.max(high * 1.1, 0.02)] }),
      flipped: new Curves(p.flipped, each(), { xLog, yLog: false, yRange: (u, low, high) => [0, Math.max(high * 1.1, 0.02)] }),
      top: new Curves(p.top, [...each(), { colour: "--never", dash: [5, 4], width: 1.5 }], { xLog, yLog: false, yRange: (u, low, high) => [0, Math.max(2.4, high * 1.05)] }),
    };
    const line = (colour, text, kind = "") => h("span", {}, h("i", { class: kind, style: `color: var(${colour})` }), text);
    const name = (k) => (this.count > 1 ? (k ? "second " : "first ") : "");
    this.parts.lossKey.replaceChildren(...lanes.flatMap((colour, k) => [line(colour, `${name(k)}measured`), line(colour, "predicted at the start", "dash")]), this.alone ? "" : line("--twin", "infinitely wide", "dots"));
    this.parts.spectrumKey.replaceChildren(...lanes.map((colour, k) => line(colour, `${name(k)}now`)), line("--twin", "at the start", "dash"));
    this.parts.ratioKey.replaceChildren(line("--proven", "½", "dash"));
    this.parts.topKey.replaceChildren(line("--never", "2: the edge of stability", "dash"));
  }

  logSteps() {
    const on = this.parts.logs.getAttribute("aria-pressed") !== "true";
    this.parts.logs.setAttribute("aria-pressed", String(on));
    for (const key of ["loss", "ratio", "moved", "flipped", "top"]) this.curves[key].logarithmic(on);
    this.draw("loss", "looks");
  }

  twoNetworks() {
    const [first, second] = this.settings.networks;
    this.settings.networks = second ? [first] : [first, { ...first, width: Math.max(8, Math.round(first.width / 8)) }];
    this.lanes[1].reset();
    this.controls();
    this.ask();
  }

  // The controls are made anew where what can be chosen has changed.
  fill() { this.controls(); }
  controls() {
    if (!this.known) return;
    const { data, networks } = this.settings, p = this.parts, known = this.known, most = known.most ?? { width: 4096, depth: 10, n: 500 };
    p.second.textContent = this.count > 1 ? "Remove the second network" : "Compare with a second network";
    p.pace.value = String(this.pace);
    if (this.curves.loss.options.series.length !== 3 * this.count) this.makeCurves();
    this.fieldCanvases();
    const row = (text, input, more = {}) => h("label", { class: "row", ...more }, h("span", {}, text), input);
    const choice = (part, key, values, i = 0) => { const select = h("select", { onchange: (event) => this.change(part, key, event.target.value, i) }, ...values.map((v) => (Array.isArray(v) ? option(...v) : option(v)))); select.value = part === "data" ? data[key] : networks[i][key]; return select; };
    const number = (part, key, low, high, i = 0) => h("input", { type: "number", min: low, max: high, value: String(part === "data" ? data[key] : networks[i][key]), onchange: (event) => { const v = Math.round(Number(event.target.value)); if (event.target.value !== "" && v >= low && v <= high) this.change(part, key, v, i); else event.target.value = String(part === "data" ? data[key] : networks[i][key]); } });
    const slider = (part, key, values, shown, i = 0) => {
      const now = part === "data" ? data[key] : networks[i][key], at = values.reduce((best, v, k) => (Math.abs(v - now) < Math.abs(values[best] - now) ? k : best), 0);
      const output = h("output", {}, shown(now));
      return h("span", { class: "slider" }, h("input", { type: "range", min: "0", max: String(values.length - 1), value: String(at), "aria-valuetext": shown(now), oninput: (event) => { const v = values[event.target.value]; output.value = shown(v); event.target.setAttribute("aria-valuetext", shown(v)); this.change(part, key, v, i); } }), output);
    };
    const text = (part, key, hint, i = 0) => h("input", { type: "text", placeholder: hint, value: (part === "data" ? data[key] : networks[i][key]) || "", spellcheck: "false", onchange: (event) => this.change(part, key, event.target.value.trim() || (key === "prepare" ? "auto" : ""), i) });

    const sources = h("select", { "aria-label": "Data", onchange: (event) => { this.leaveTour(); const [kind, name] = event.target.value.split("|"); const usual = { bundled: { n: name === "digits" ? 200 : 100, classes: name === "digits" ? "0,1" : "" }, generator: { n: 40 }, points: { n: known.lines.includes(name) ? 12 : 40 } }[kind]; this.settings.data = { ...defaults.data, kind, name: kind === "generator" ? known.generators[name] : name, ...usual }; this.suitData(); this.controls(); this.ask(); } },
      h("optgroup", { label: "Points to drag" }, ...known.points.map((name) => option(`points|${name}`, name))),
      this.alone ? null : h("optgroup", { label: "Bundled" }, ...known.bundled.map((name) => option(`bundled|${name}`, name))),
      this.alone ? null : h("optgroup", { label: "Generators" }, ...Object.keys(known.generators).map((name) => option(`generator|${name}`, name))),
      data.kind === "file" ? h("optgroup", { label: "Your table" }, option(`file|${data.name}`, this.table?.name ?? "table")) : null);
    sources.value = data.kind === "generator" ? `generator|${data.name.split(":")[0]}` : `${data.kind}|${data.name}`;
    const given = data.kind === "given" ? known.given : null;
    const rows = [given ? row("given", h("b", { class: "given" }, given.name)) : row("source", sources)];
    if (data.kind === "generator") rows.push(row("parameters", text("data", "name", "sphere:n=20,d=10,separation=0.5")));
    else rows.push(row("examples", number("data", "n", 2, given ? Math.min(given.n, 5000) : data.kind === "points" ? most.n : 5000), given ? { title: `of ${given.n.toLocaleString("en")}` } : {}));
    if (data.kind === "points") rows.push(row("noise", slider("data", "noise", [0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5], (v) => String(v))), row("draw", number("data", "seed", 0, 9999)));
    if (data.kind === "file") rows.push(row("predict", choice("data", "target", this.table?.columns ?? [data.target])));
    if (["bundled", "file"].includes(data.kind)) rows.push(row("classes", text("data", "classes", "all, or as in 0,1")));
    if (!this.alone) rows.push(row("preparation", text("data", "prepare", "auto")));
    const drop = this.files ? h("label", { class: "drop" }, "Drop a CSV here, or ", h("u", {}, "choose one"), h("input", { type: "file", accept: ".csv,.tsv,.txt", hidden: true, onchange: (event) => event.target.files[0] && this.upload(event.target.files[0]) })) : null;
    drop?.setAttribute("tabindex", "0");
    drop?.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); drop.querySelector("input").click(); } });
    const choose = h("button", { type: "button", onclick: () => this.send({ do: "choose", settings: { data, networks } }) }, "Choose a network for me");
    const dataCard = h("fieldset", { class: "card" }, h("legend", {}, "Data"), ...rows, drop, this.alone ? null : choose);

    const widths = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096].filter((v) => v <= most.width), depths = [1, 2, 3, 4, 5, 6, 8, 10].filter((v) => v <= most.depth), scales = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30];
    const steps = [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 1, 1.01, 1.03, 1.06, 1.1, 1.2, 1.5, 2];
    const cards = networks.map((network, i) => {
      const kind = known.networks[network.name] ?? { options: [], groups: [] };
      const rows = [
        this.alone ? null : row("network", choice("network", "name", Object.keys(known.networks), i)),
        kind.options.includes("width") ? row("width", slider("network", "width", widths, (v) => String(v), i)) : null,
        kind.options.includes("depth") ? row("depth", slider("network", "depth", depths, (v) => String(v), i)) : null,
        kind.options.includes("activation") ? row("activation", choice("network", "activation", known.activations, i)) : null,
        kind.groups.length > 1 ? row("trained", choice("network", "trained", ["all", ...kind.groups.filter((g) => ["hidden", "output"].includes(g))], i)) : null,
        row("output scale", slider("network", "scale", scales, (v) => `× ${v}`, i)),
        row("step size", slider("network", "step", steps, (v) => `${v} · 2/λ`, i), { title: "as a multiple of 2/λmax of the Gram matrix at the start: above 1 gradient descent is unstable" }),
        this.alone ? null : row("batch", number("network", "batch", 0, 5000, i), { title: "examples per step; 0 takes all of them: gradient descent" }),
        this.alone ? null : row("order", choice("network", "order", [["subsets", "random subsets"], ["epochs", "epochs"]], i), { title: "a random subset for every step, or epochs that use every example once, where there is a batch" }),
        this.alone ? null : row("momentum", slider("network", "momentum", [0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99], (v) => (v ? String(v) : "none"), i)),
        row("seed", number("network", "seed", 0, 99999, i)),
      ];
      return h("fieldset", { class: "card" }, h("legend", {}, h("span", { class: `dot ${LANES[i]}` }), this.count > 1 ? `Network ${i + 1}` : "Network"), ...rows);
    });
    p.controls.replaceChildren(dataCard, ...cards);
    this.describe();
  }
  suitData() {
    const kind = this.known.networks[this.settings.networks[0].name]?.data, data = this.settings.data;
    const takes = data.kind === "bundled" && data.name === "digits" ? ["vectors", "images", "sequences"] : data.kind === "generator" && data.name.startsWith("sequences") || data.name === "digits-rows" ? ["sequences"] : data.name === "digits-images" ? ["images"] : ["vectors"];
    if (!takes.includes(kind)) for (const network of this.settings.networks) network.name = { vectors: "fully-connected", images: "conv-residual", sequences: "elman-rnn" }[takes[0]];
    if (takes[0] !== "vectors" || kind !== "vectors") Object.assign(data, { n: Math.min(data.n, 20) });
  }

  describe() {
    const { data, parts: p } = this;
    if (!data) return;
    const drawn = data.dimension <= 2 && data.inputs.length === 1;
    p.function.hidden = !drawn;
    p.about.hidden = drawn;
    p.tools.hidden = !data.movable;
    p.function.querySelector(".note").hidden = !data.movable;
    const lines = [data.text, data.prepared ? `Prepared by ${data.prepared}: vectors of ${data.inputs.join(" × ")}.` : "", ...this.own().map((lane) => (lane.info ? `${lane.info.text}: ${lane.info.weights.toLocaleString("en")} weights, step size ${short(lane.info.step_size)}.` : "")), ...data.notes];
    p.aboutText.replaceChildren(...lines.filter(Boolean).map((line) => h("p", {}, line)));
  }

  tell(text) { this.told = text; this.parts.note.textContent = text; this.parts.note.hidden = !text; }
  error(text) { this.parts.error.replaceChildren(...(text ? [h("div", { class: "error" }, h("span", {}, text), h("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => this.error("") }, "✕"))] : [])); }
  busy(text) { this.parts.busy.textContent = text; this.parts.busy.classList.toggle("busy", Boolean(text)); this.element.setAttribute("aria-busy", String(Boolean(text))); }
  playing(on) { this.running = on; this.parts.run.textContent = on ? "Pause" : "Run"; this.draw("count"); }

  // Pictures are drawn once a frame, whatever came in between.
  shown() { this.draw("loss", "looks", "meters", "grams", "fields", "count"); }
  draw(...what) {
    for (const one of what) this.dirty.add(one);
    if (this.frame || this.gone) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const due = [...this.dirty];
      this.dirty.clear();
      for (const one of due) this[`draw_${one}`]();
      for (; this.owing > 0; this.owing--) this.send({ do: "ack" });
      this.frames = (this.frames ?? 0) + 1;
    });
  }

  draw_count() {
    const lanes = this.own(), parts = lanes.map((lane) => `step ${lane.step.toLocaleString("en")}${lane.last !== undefined && lane.step ? `, loss ${short(lane.last)}` : ""}${lane.state === "diverged" ? ", diverged" : lane.state === "fitted" ? ", fitted to rounding" : this.running && lane.rate ? `, ${short(lane.rate, 2)} steps/s` : ""}`);
    this.parts.count.textContent = parts.join("   ·   ");
  }

  draw_loss() {
    const lanes = this.own();
    let last = Math.max(...lanes.map((lane) => lane.loss.length - 1), 0), floor = Infinity;
    const firsts = [];
    for (const lane of lanes) {
      const known = lane.loss.filter((v) => v > 0), first = lane.forecast?.arrays.loss[0] ?? known[0];
      if (first > 0) firsts.push(first);
      for (const v of known) floor = Math.min(floor, v);
      if (lane.forecast) {
        const { step, loss } = lane.forecast.arrays;
        let k = 0;
        while (k < loss.length - 1 && loss[k] > first * 1e-5 && loss[k] < first * 1e3) k++;
        last = Math.max(last, Math.min(place(step[k]), place(3e6)));
      }
    }
    floor = Math.min(floor, Math.max(...firsts, 1e-300) * 1e-7);
    const count = Math.min(last + 1, GRID.length), x = GRID.slice(0, count).map((step) => step + 1);
    const measured = lanes.map((lane) => x.map((_, k) => lane.loss[k] ?? null));
    const sampled = (source) => x.map((step) => interpolate(source, step - 1, floor));
    this.curves.loss.set([x, ...measured, ...lanes.map((lane) => (lane.forecast ? sampled(lane.forecast.arrays) : x.map(() => null))), ...lanes.map((lane) => (lane.twin ? sampled(lane.twin.arrays) : x.map(() => null)))]);
  }

  draw_looks() {
    const lanes = this.own(), steps = [...new Set(lanes.flatMap((lane) => lane.looks.map((look) => look.step)))].sort((a, b) => a - b);
    if (!steps.length) return;
    const x = steps.map((s) => s + 1), at = lanes.map((lane) => new Map(lane.looks.map((look) => [look.step, look])));
    const each = (key, positive = false) => at.map((map) => steps.map((s) => { const v = map.get(s)?.[key]; return v === undefined || v === null || (positive && !(v > 0)) ? null : v; }));
    const wide = x.length === 1 ? [x[0], x[0] * 10] : x, pad = (values) => (x.length === 1 ? [...values, null] : values);
    this.curves.ratio.set([wide, ...each("h", true).map(pad), wide.map(() => 0.5)]);
    this.curves.moved.set([wide, ...each("relative").map(pad)]);
    this.curves.flipped.set([wide, ...each("flipped").map(pad)]);
    this.curves.top.set([wide, ...each("top").map(pad), wide.map(() => 2)]);
    const most = Math.max(...lanes.map((lane) => lane.now?.length ?? 0), 1), index = [...Array(most).keys()].map((k) => k + 1);
    const column = (values) => index.map((_, k) => (values && values[k] > 0 ? values[k] : null));
    this.curves.spectrum.set([index, ...lanes.flatMap((lane) => [column(lane.now), column(lane.start)])]);
  }

  draw_grams() {
    const { grams } = this.parts, lanes = this.own();
    while (grams.children.length > lanes.length) grams.lastChild.remove();
    lanes.forEach((lane, i) => {
      let figure = grams.children[i];
      if (!figure) {
        const canvas = h("canvas", { class: "matrix", role: "img", "aria-label": "Gram matrix", onpointermove: (event) => this.overGram(event, i), onpointerleave: () => this.tip("") });
        figure = h("figure", {}, canvas, h("figcaption", {}));
        grams.append(figure);
      }
      const look = lane.looks.at(-1);
      if (!lane.gram?.n || !this.data) { figure.lastChild.textContent = look ? "too many examples to draw" : ""; return; }
      lane.stride = Math.ceil(this.data.n / lane.gram.n) || 1;
      const there = new Set([...Array(lane.gram.n).keys()].map((r) => r * lane.stride));
      const order = lane.gram.n * lane.stride >= this.data.n ? this.data.order.filter((k) => there.has(k)).map((k) => k / lane.stride) : [...Array(lane.gram.n).keys()];
      lane.order = order.length === lane.gram.n ? order : [...Array(lane.gram.n).keys()];
      drawMatrix(figure.firstChild, lane.gram.values, lane.gram.n, lane.order);
      figure.lastChild.textContent = look ? `λ from ${short(Math.max(0, lane.now?.at(-1) ?? look.s ** 2))} to ${short(look.largest)}` : "";
    });
  }
  overGram(event, i) {
    const lane = this.lanes[i], box = event.target.getBoundingClientRect();
    if (!lane.gram?.n || !lane.order) return;
    const n = lane.gram.n, cell = (v, size) => Math.max(0, Math.min(n - 1, Math.floor((v / size) * n)));
    const row = lane.order[cell(event.clientY - box.top, box.height)], column = lane.order[cell(event.clientX - box.left, box.width)];
    this.marked = [row * lane.stride, column * lane.stride];
    this.tip(`examples ${this.marked[0]} and ${this.marked[1]}: ${lane.gram.values[row * n + column].toFixed(3)}`, event);
    this.draw("fields");
  }
  tip(text, event) {
    this.tipBox ??= h("div", { class: "tip", role: "tooltip" });
    if (!text) { this.tipBox.remove(); if (this.marked.length) { this.marked = []; this.draw("fields"); } return; }
    this.tipBox.textContent = text;
    const root = this.element.getRootNode(), style = this.tipBox.style;
    (root.body ?? root).append(this.tipBox);
    Object.assign(style, { left: "0", top: "0" });
    const from = this.tipBox.getBoundingClientRect(); // where nothing is: not the window's corner in every page
    Object.assign(style, { left: `${Math.min(event.clientX + 14, innerWidth - 190) - from.left}px`, top: `${event.clientY + 14 - from.top}px` });
  }

  fieldCanvases() {
    const { fields } = this.parts, line = this.data?.line;
    const one = (i, twin) => {
      const canvas = h("canvas", { class: line ? "line" : "plane", tabindex: twin ? null : "0", role: "img", "aria-label": twin ? "The infinitely wide network" : "The network's function with the examples: n and p choose one, arrows move it, space flips its label, a adds and delete removes" });
      if (!twin) this.listen(canvas);
      const caption = h("figcaption", {}, twin ? "infinitely wide, after as many steps" : this.count > 1 ? `network ${i + 1}` : "this network");
      return h("figure", {}, canvas, caption);
    };
    const figures = this.settings.networks.flatMap((_, i) => (line || this.alone ? [one(i, false)] : [one(i, false), ...(this.count > 1 && i === 0 ? [] : [one(i, true)])]));
    fields.replaceChildren(...figures);
    fields.dataset.kind = `${this.count}${line}`;
  }
  draw_fields() {
    if (!this.data || this.parts.function.hidden) return;
    if (this.parts.fields.dataset.kind !== `${this.count}${this.data.line}`) this.fieldCanvases();
    const canvases = [...this.parts.fields.querySelectorAll("canvas")], points = this.data.points, how = { chosen: this.chosen, marked: this.marked };
    if (this.data.line) {
      this.own().forEach((lane, i) => drawLine(canvases[i], [...(lane.twinField ? [[lane.twinField, "--twin", [4, 4]]] : []), ...(lane.field ? [[lane.field, COLOURS[i], []]] : [])], points, how));
      return;
    }
    const fields = this.count > 1 ? [this.lanes[0].field, this.lanes[1].field, this.lanes[1].twinField] : [this.lanes[0].field, this.lanes[0].twinField];
    canvases.forEach((canvas, k) => drawPlane(canvas, fields[k], points, how));
  }

  makeTools() {
    const tools = [["move", "Move"], ["plus", "Add blue"], ["minus", "Add orange"], ["flip", "Flip label"], ["delete", "Remove"]];
    this.parts.tools.replaceChildren(...tools.map(([tool, text]) => h("button", { type: "button", "aria-pressed": String(tool === this.tool), onclick: () => { this.tool = tool; this.makeTools(); } }, text)));
  }
  listen(canvas) {
    const where = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top, box.width, box.height]; };
    const scale = () => (this.data.line ? drawLine.scale : 1);
    const nearest = (event, within) => {
      const [sx, sy, width, height] = where(event);
      let best = -1, least = within;
      this.data.points.forEach(([x, y], i) => { const [px, py] = toScreen(x, y * scale(), width, height), far = Math.hypot(px - sx, py - sy); if (far < least) { least = far; best = i; } });
      return best;
    };
    const plane = (event) => { const [x, y] = toPlane(...where(event)), clip = (v) => Math.max(-1, Math.min(1, v)); return [clip(x), clip(y / scale())]; };
    const copy = () => this.data.points.map((point) => [...point]);
    // Within a few pixels of another point the dragged one lands exactly on it.
    const snapped = (event) => {
      const [sx, sy, width, height] = where(event);
      const on = this.data.points.findIndex(([x, y], i) => { const [px, py] = toScreen(x, y * scale(), width, height); return i !== this.dragged && Math.hypot(px - sx, py - sy) < 8; });
      return on >= 0 ? this.data.points[on].slice(0, 2) : plane(event);
    };
    const moved = (i, x, y) => { const points = copy(); points[i] = [x, y, points[i][2]]; this.movePoints(points); };
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.data.movable) return;
      const i = nearest(event, this.tool === "move" ? 22 : 16), points = copy();
      if (this.tool === "move" && i >= 0) { this.dragged = i; this.chosen = i; canvas.setPointerCapture(event.pointerId); } else if (this.tool === "plus" || this.tool === "minus") { points.push([...plane(event), this.tool === "plus" ? 1 : -1]); this.movePoints(points); } else if (this.tool === "flip" && i >= 0 && !this.data.line) { points[i][2] = -points[i][2]; this.movePoints(points); } else if (this.tool === "delete" && i >= 0 && points.length > 2) { points.splice(i, 1); this.movePoints(points); }
    });
    canvas.addEventListener("pointermove", (event) => { if (this.dragged !== undefined) moved(this.dragged, ...snapped(event)); else if (this.data?.movable) canvas.style.cursor = nearest(event, 22) >= 0 ? "grab" : this.tool.endsWith("us") ? "crosshair" : "default"; });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => { this.dragged = undefined; this.chosen = -1; this.draw("fields", "grams"); });
    canvas.addEventListener("dblclick", (event) => { const i = nearest(event, 16); if (i >= 0 && this.data.movable && !this.data.line) { const points = copy(); points[i][2] = -points[i][2]; this.movePoints(points); } });
    canvas.addEventListener("keydown", (event) => {
      if (!this.data?.movable) return;
      const points = copy(), n = points.length, at = this.chosen;
      const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key], by = event.shiftKey ? 0.1 : 0.02;
      if (event.key === "n" || event.key === "p") { this.chosen = (at + (event.key === "n" ? 1 : n - 1) + n) % n; this.draw("fields"); } else if (arrow && at >= 0) moved(at, Math.max(-1, Math.min(1, points[at][0] + arrow[0] * by)), Math.max(-1, Math.min(1, points[at][1] + arrow[1] * by))); else if (event.key === " " && at >= 0) { points[at][2] = -points[at][2]; this.movePoints(points); } else if (event.key === "Delete" && at >= 0 && n > 2) { points.splice(at, 1); this.chosen = -1; this.movePoints(points); } else if (event.key === "a") { points.push([0.05 * (n % 7) - 0.15, 0.05 * (n % 5) - 0.1, 1]); this.chosen = n; this.movePoints(points); } else return;
      event.preventDefault();
    });
    canvas.addEventListener("blur", () => { if (this.chosen >= 0) { this.chosen = -1; this.draw("fields"); } });
  }

  // The proof meter: h on a logarithmic scale from 10⁻⁴ to 10⁸, its parts, and the verdict.
  draw_meters() {
    const { meters } = this.parts;
    while (meters.children.length > this.count) meters.lastChild.remove();
    this.own().forEach((lane, i) => { if (!meters.children[i]) meters.append(this.meter(i)); this.setMeter(meters.children[i], lane, i); });
    const links = (this.earlier ?? []).map(({ folder, text }) => h("li", {}, `${text} `, h("a", { href: `tabs/${this.tab}/${folder}/report.html`, target: "_blank" }, "report"), " ", h("a", { href: `tabs/${this.tab}/${folder}/certificate.zip`, download: "" }, "certificate")));
    if (this.earlierShown !== links.length && links.length) { this.parts.earlier.hidden = false; this.parts.earlierList.replaceChildren(...links); this.earlierShown = links.length; }
    meters.classList.toggle("proved-card", this.own().some((lane) => lane.proof?.state === "proved"));
  }
  meter(i) {
    const at = (value) => `${Math.max(0, Math.min(100, ((Math.log10(value) + 4) / 12) * 100))}%`;
    const ticks = [-4, -2, 0, 2, 4, 6, 8].map((k) => h("span", { class: "tick", style: `left: clamp(1rem, ${at(10 ** k)}, calc(100% - 1rem))` }, k === 0 ? "1" : power(k)));
    const element = h("div", { class: "meter" },
      h("div", { class: "said" }, h("h2", {}, this.count > 1 ? `Proof meter, network ${i + 1}` : "Proof meter"), h("span", { class: "value" }), h("span", { class: "verdict", role: "status" })),
      h("div", { class: `scale ${LANES[i]}`, role: "meter", "aria-label": "proof ratio h", "aria-valuemin": "-4", "aria-valuemax": "8" }, h("div", { class: "track" }, h("div", { class: "good", style: `width: ${at(0.5)}` })), h("span", { class: "half", style: `left: ${at(0.5)}`, title: "½" }), ...ticks, h("span", { class: "needle" })),
      h("div", { class: "parts" }), h("div", { class: "actions" }));
    element.at = at;
    return element;
  }
  setMeter(element, lane, i) {
    const look = lane.looks.at(-1), [said, scale, parts, actions] = element.children, proof = lane.proof;
    const value = look?.h ?? null;
    said.children[1].textContent = look ? `h = ${value === null ? "∞" : short(value)}` : "";
    scale.lastChild.style.left = element.at(value ?? 1e8);
    scale.setAttribute("aria-valuenow", String(value ? Math.log10(value).toFixed(1) : 8));
    parts.replaceChildren(...(look ? [["ρ, the residual", look.residual], ["s, the smallest singular value", look.s], ["Λ, how fast the Jacobian turns", look.constant]].map(([name, v]) => h("span", {}, `${name}: `, h("b", {}, short(v)))) : []), h("span", { class: "soft" }, "h = Λρ/s²"));
    const verdict = said.children[2];
    const [text, tone] = this.verdict(lane, look);
    verdict.textContent = text;
    verdict.className = `verdict ${tone}`;
    verdict.classList.toggle("busy", proof?.state === "proving" || Boolean(lane.following?.endsWith("…")));
    const key = JSON.stringify([lane.following, proof?.state, proof?.folder, proof?.begun, lane.kept, this.files, lane.step > 0, look?.pure]);
    if (actions.dataset.key === key) return;
    actions.dataset.key = key;
    const made = [], place = `tabs/${this.tab}/${proof?.folder}`;
    if (proof && ["proved", "open", "impossible"].includes(proof.state) && this.files) {
      made.push(h("a", { class: "button", href: `${place}/report.html`, target: "_blank" }, "Report"));
      if (proof.certificate) made.push(h("a", { class: "button", href: `${place}/certificate.zip`, download: "" }, "Certificate"));
      if (proof.certificate) made.push(h("button", { type: "button", disabled: Boolean(lane.kept), onclick: async () => { const answer = await fetch(`${place}/keep`, { method: "POST" }), found = await answer.json(); lane.kept = found.folder ?? found.error; this.draw("meters"); } }, lane.kept ? `Kept in ${lane.kept}` : "Keep it"));
    }
    const shown = proof?.state === "proved" && !this.files; // a notebook has no links to files
    if (shown) made.push(h("button", { type: "button", disabled: Boolean(lane.kept), onclick: () => this.send({ do: "keep", lane: i, folder: proof.folder }) }, lane.kept ? "Kept" : "Keep it"));
    if (proof?.state === "proved" && !proof.begun && look?.pure) made.push(h("button", { type: "button", onclick: () => this.send({ do: "prove", lane: i, from_start: true }) }, lane.following?.endsWith("…") ? "Following every step…" : "Prove it from the first step"));
    if (!this.alone && lane.step > 0 && proof?.state !== "proving" && proof?.state !== "proved") made.push(h("button", { type: "button", onclick: () => this.send({ do: "prove", lane: i, from_start: false }) }, "Try to prove it now"));
    if (shown) made.push(h("code", { class: "path", title: "certificate, report and run lie in this folder" }, lane.kept ?? proof.path));
    if (this.alone) made.push(h("span", { class: "soft small" }, "A meter and not a proof: nothing here is proved, because rounding is not bounded. For proofs, install Wideproof: its lab has this bench."));
    actions.replaceChildren(...made);
  }
  // Whether two inputs are equal and their labels are not.
  get clash() {
    if (!this.data?.movable) return false;
    const seen = new Map();
    return this.data.points.some(([x, y, label]) => { const key = this.data.line ? String(x) : `${x},${y}`, value = this.data.line ? y : label, other = seen.get(key); seen.set(key, value); return other !== undefined && other !== value; });
  }
  verdict(lane, look) {
    const proof = lane.proof;
    if (this.clash && proof?.state !== "proved") return ["Two equal inputs have different labels: no network can fit both. The least loss that is left can still be proved to be reached.", "no"];
    if (proof?.state === "proving") return [`step ${proof.step.toLocaleString("en")}: ${proof.text}…`, "soft"];
    if (proof?.state === "proved") return [`✓ ${proof.begun ? "Proved from the first step" : `Proved at step ${proof.step.toLocaleString("en")}`}. ${lane.following ? `(${lane.following}) ` : ""}${proof.text.replace(/^Proved: /, "").replace(/^./, (c) => c.toUpperCase())}`, "yes"];
    if (proof?.state === "impossible") return [proof.text, "no"];
    if (proof?.state === "open" || proof?.state === "failed") return [`Not proved. ${proof.obstacle || proof.text}`, "maybe"];
    if (lane.state === "diverged") return ["Diverged: the step size is too large for this network.", "no"];
    if (!look) return ["", "soft"];
    if (look.h < 0.5 && !look.obstacle) return [this.alone ? "below ½: up to rounding, gradient descent with small enough steps reaches zero loss from here" : "below ½: it can be certified from here on", "yes"];
    if (!(look.s > 0)) return [`no proof: ${look.obstacle || "the Gram matrix is singular"}`, "maybe"];
    return [`${look.step ? "not yet" : "before training"}: it has to fall below ½`, "soft"];
  }

  drawTour() {
    const k = this.station, station = this.tour[k];
    const list = h("ol", {}, ...this.tour.map((s, i) => h("li", {}, h("button", { type: "button", title: s.title, "aria-label": `Station ${i + 1}: ${s.title}`, "aria-current": i === k ? "step" : null, onclick: () => this.visit(i) }, String(i + 1)))));
    const text = station ? h("p", {}, h("b", {}, `${station.title}. `), station.text) : h("p", {}, h("b", {}, this.alone ? "Train a network, and watch it become provable. " : "Train a network, and get a proof that training reaches zero error. "), `Press Run, or let ${this.alone ? "four" : "five"} stations show what width, lazy training, the edge of stability and a proof are.`);
    this.parts.tour.replaceChildren(list, text, !station ? h("button", { class: "main", type: "button", onclick: () => this.visit(0) }, "Start the tour") : h("button", { class: "quiet", type: "button", onclick: () => { if (k + 1 < this.tour.length) this.visit(k + 1); else { this.station = -1; this.drawTour(); } } }, k + 1 < this.tour.length ? "Next →" : "Done"));
  }
}

// The value of a curve at a step, straight between its points; nothing below the floor or outside.
function interpolate({ step, loss }, at, floor) {
  if (!step.length || at < step[0] || at > step.at(-1)) return null;
  let low = 0, high = step.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (step[middle] <= at) low = middle; else high = middle; }
  const t = step[high] > step[low] ? (at - step[low]) / (step[high] - step[low]) : 0;
  const value = loss[low] > 0 && loss[high] > 0 ? Math.exp((1 - t) * Math.log(loss[low]) + t * Math.log(loss[high])) : loss[low];
  return value >= floor ? value : null;
}
