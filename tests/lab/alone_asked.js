// What tests/lab/test_alone.py asks of the page's arithmetic: functions of what the library hands over. It runs behind the
// text of the page's worker, reads {name: [function, given]} and writes what each function returns.
const flat = (a) => Float64Array.from([a].flat(Infinity));
const taken = ({ network, x, y, W, a }) => ({ network, data: dataset(flat(x), flat(y), x.length, x[0].length), weights: { W: W.map(flat), a: flat(a) } });

// A bench with a clock that goes on by a millisecond when it is looked at.
function benched() {
  let clock = 0;
  const heard = [], queue = [], bench = new Alone((message) => heard.push(message), { now: () => (clock += 1), later: (act) => queue.push(act) });
  const network = { width: 16, depth: 1, activation: "tanh", seed: 0, step: 0.5, scale: 1, name: "fully-connected" };
  const data = { name: "blobs", n: 6, noise: 0, seed: 0, points: null };
  return {
    bench, kinds: () => heard.map((message) => message.kind), last: (kind) => heard.filter((message) => message.kind === kind).at(-1), time: () => clock,
    configure: (changes = {}, change = {}) => bench.do({ do: "configure", settings: { data: { ...data, ...changes }, networks: [{ ...network, ...change }] } }),
    turns: (count) => { while (count-- > 0 && queue.length) queue.shift()(); },
  };
}

const asks = {
  outputs(given) { const { network, data, weights } = taken(given); return forward(network, weights, data.x, data.n).outputs; },
  steps(given) {
    const { network, data, weights } = taken(given), loss = [];
    for (let k = 0; k < given.steps; k++) loss.push(descend(network, weights, data, given.eta));
    return { loss, ...weights };
  },
  look(given) {
    const { network, data, weights } = taken(given), at = measure(network, weights, data), radius = (2 * at.residual) / at.s;
    return {
      gram: at.gram, eigenvalues: at.eigenvalues, residual: at.residual, s: at.s, ...proofRatio(at),
      constants: [0, 1e-3, radius].map((one) => lipschitz(at, one)), slack: signSlack(at, radius),
    };
  },
  ratio(given) { const { network, data, weights } = taken(given); return proofRatio(measure(network, weights, data)); },
  curve(given) { const { network, data, weights } = taken(given); return [0, 1, 7, 100].map(foretold(measure(network, weights, data), given.eta, data.distinct.least)); },
  erf: (z) => z.map(erf),
  eigen: (matrices) => matrices.map((a) => { const { values, vectors } = eigen(a.flat(), a.length, true); return [values, vectors, eigen(a.flat(), a.length).values]; }),
  norms: (a) => [spectral(flat(a), 5, 9), spectral(flat(a), 9, 5)],
  sets: () => Object.keys(PLANES).map((name) => [1, 1, 2].map((seed) => points(name, 21, 0.2, seed))),
  small: () => Object.keys(PLANES).map((name) => points(name, 2, 0, 0)),
  normal: (count) => { const draw = random(3); return Array.from({ length: count }, draw.normal); },
  prepared: (rows) => { const { data, grid } = examples(rows, 3); return { x: data.x, y: data.y, grid: grid.x }; },
  begun: ({ network, name, n }) => [points(name, n, 0.1, 0), start(network, 0)],

  messages() { const { configure, kinds, last } = benched(); configure(); return [kinds(), last("look").h]; },
  seven() {
    const { bench, configure, last } = benched();
    configure();
    bench.do({ do: "step", steps: 7 });
    return [last("points").at, last("points").arrays.loss[0], last("look").step, last("field").arrays.network[0].length];
  },
  moved() {
    const { bench, configure, last } = benched();
    configure();
    bench.do({ do: "step", steps: 3 });
    const [xy] = last("data").arrays.points, rows = [0, 1, 2, 3, 4, 5].map((i) => [xy[2 * i], xy[2 * i + 1], i % 2 ? -1 : 1]);
    bench.do({ do: "move", points: rows.map((row, i) => (i === 1 ? [...rows[0].slice(0, 2), -1] : row)) });
    const met = last("look"), first = bench.lanes[0].eta;
    bench.do({ do: "steer", lane: 0, step: 0.25 });
    const slower = bench.lanes[0].eta / first, { origin } = last("forecast");
    bench.do({ do: "move", points: [...rows, [0.5, -0.5, 1]] });
    return { step: met.step, eigenvalues: met.arrays.eigenvalues[0], h: met.h, slower, origin, n: last("data").n, again: last("look").step };
  },
  run() {
    const { bench, configure, kinds, last, turns } = benched();
    configure({ n: 3 }, { step: 0.9 });
    bench.do({ do: "run" });
    turns(20);
    const owed = bench.owed, sent = kinds().filter((kind) => kind === "points").length;
    for (let k = 0; k < 1e5 && bench.running; k++) { bench.do({ do: "ack" }); turns(1); }
    return { owed, sent, over: last("paused").over, state: last("points").state, h: last("look").h };
  },
  blown() { const { bench, configure, last, turns } = benched(); configure({}, { step: 8 }); bench.do({ do: "run" }); turns(400); return last("paused").over; },
  paced() {
    const { bench, configure, time, turns } = benched();
    configure();
    bench.do({ do: "pace", pace: 10 });
    const began = time();
    bench.do({ do: "run" });
    turns(400);
    return { steps: bench.lanes[0].step, milliseconds: time() - began };
  },
  refused({ data, network }) { const { configure, kinds, last } = benched(); configure(data, network); return [kinds(), last("error").text]; },
};

const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
const said = Object.fromEntries(Object.entries(asked).map(([name, [ask, given]]) => [name, asks[ask](given)]));
console.log(JSON.stringify(said, (_, v) => (ArrayBuffer.isView(v) ? Array.from(v) : v === Infinity ? "inf" : v)));
