// The library's numbers in plain JavaScript: sets of points, fully-connected networks, gradient descent, Gram matrices,
// eigenvalues, the proof ratio. Ordinary float64: nothing here is proved, because rounding is not bounded. The page, its
// worker and the tests (tests/lab/test_alone.py, against the library) share this file. Matrices are flat, row by row.

// Activations, with the constants of `wideproof.networks`: c = 1/E[σ(X)²], sup|σ'|, the Lipschitz constant of σ'.
const sigmoid = (z) => { const e = Math.exp(-Math.abs(z)); return z >= 0 ? 1 / (1 + e) : e / (1 + e); };
// erf as a series without cancellation, from 2.5 on by the continued fraction of erfc.
export function erf(z) {
  const x = Math.abs(z);
  if (x > 6) return Math.sign(z);
  if (x < 2.5) {
    let term = z, sum = z;
    for (let k = 1; Math.abs(term) > 1e-18 * Math.abs(sum); k++) { term *= (2 * z * z) / (2 * k + 1); sum += term; }
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
  }
  let tail = 0;
  for (let k = 60; k > 0; k--) tail = k / 2 / (x + tail);
  return Math.sign(z) * (1 - Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + tail));
}
export const ACTIVATIONS = {
  tanh: { c: 2.5361754332174537, lipschitz: 1, smoothness: 4 / (3 * Math.sqrt(3)), value: Math.tanh, slope: (z) => { const e = Math.exp(-2 * Math.abs(z)); return (4 * e) / ((1 + e) * (1 + e)); } },
  softplus: { c: 1.0854865029883434, lipschitz: 1, smoothness: 0.25, value: (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z))), slope: sigmoid },
  erf: { c: 2.1525788606075986, lipschitz: 2 / Math.sqrt(Math.PI), smoothness: 4 / Math.sqrt(2 * Math.PI * Math.E), value: erf, slope: (z) => (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) },
  relu: { c: 2, lipschitz: 1, smoothness: 0, kinked: true, value: (z) => Math.max(z, 0), slope: (z) => (z > 0 ? 1 : 0) },
};

// Random numbers from a seed: sfc32, and normal ones by Box and Muller. (Not those of NumPy: seeds draw other weights.)
export function random(seed) {
  let [a, b, c, d] = [0x9e3779b9, 0x243f6a88, 0xb7e15162, seed | 0];
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0; a = b ^ (b >>> 9); b = (c + (c << 3)) | 0; c = (c << 21) | (c >>> 11); c = (c + t) | 0;
    return (t >>> 0) / 4294967296;
  };
  for (let k = 0; k < 15; k++) next();
  return { uniform: next, normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()) };
}

// Sets of points [x, y, label] in the plane: coordinates from -1 to 1, labels -1 and 1.
const turned = (radius, angle, label) => [radius * Math.cos(angle), radius * Math.sin(angle), label];
const moved = ([x, y, label], by, draw) => [x + by * draw.normal(), y + by * draw.normal(), label];
export const PLANES = {
  circles: (k, n, noise, draw) => moved(turned(k % 2 ? 0.36 : 0.8, (2 * Math.PI * k) / n, k % 2 ? 1 : -1), 0.5 * noise, draw),
  moons: (k, n, noise, draw) => { const t = (Math.PI * k) / Math.max(n - 1, 1); return moved(k % 2 ? [0.6 * (0.5 - Math.cos(t)), 0.8 * (0.25 - Math.sin(t)), 1] : [0.6 * (Math.cos(t) - 0.5), 0.8 * (Math.sin(t) - 0.25), -1], 0.7 * noise, draw); },
  blobs: (k, n, noise, draw) => moved(k % 2 ? [-0.4, -0.4, -1] : [0.4, 0.4, 1], 0.05 + noise, draw),
  xor: (k, n, noise, draw) => { const [x, y] = [[0.5, 0.5], [0.5, -0.5], [-0.5, -0.5], [-0.5, 0.5]][Math.floor((4 * k) / n)]; return moved([x, y, x * y > 0 ? 1 : -1], 0.05 + 0.8 * noise, draw); },
  spirals: (k, n, noise, draw) => { const t = 0.12 + (0.88 * k) / Math.max(n - 1, 1); return moved(turned(0.9 * t, 3.2 * Math.PI * Math.sqrt(t) + (k % 2 ? Math.PI : 0), k % 2 ? -1 : 1), 0.15 * noise, draw); },
};
export function points(name, n, noise, seed) {
  const draw = random(seed), clip = (v) => Math.max(-1, Math.min(1, v));
  return [...Array(n).keys()].map((k) => PLANES[name](k, n, noise, draw)).map(([x, y, label]) => [clip(x), clip(y), label]);
}

// The preparation sphere(r): a constant coordinate is appended, and rows are scaled to the norm r.
export function sphereFor(x, n, d, radius = 4) {
  let sum = 0;
  for (const v of x) sum += v * v;
  return { radius, beta: 0.5 * Math.sqrt(sum / n) || 1, d };
}
export function onSphere({ radius, beta, d }, x, n) {
  const out = new Float64Array(n * (d + 1));
  for (let i = 0; i < n; i++) {
    let square = beta * beta;
    for (let k = 0; k < d; k++) square += x[i * d + k] ** 2;
    const scale = radius / Math.sqrt(square);
    for (let k = 0; k < d; k++) out[i * (d + 1) + k] = scale * x[i * d + k];
    out[i * (d + 1) + d] = scale * beta;
  }
  return out;
}

// Examples for a network; equal inputs are one, with the mean of their targets and a count.
export function dataset(x, y, n, d) {
  const groups = new Map(), place = new Int32Array(n), first = [];
  for (let i = 0; i < n; i++) {
    const key = Array.from(x.subarray(i * d, (i + 1) * d), (v) => v + 0).join();
    if (!groups.has(key)) { groups.set(key, first.length); first.push(i); }
    place[i] = groups.get(key);
  }
  const count = first.length, counts = new Float64Array(count), mean = new Float64Array(count);
  place.forEach((g, i) => { counts[g] += 1; mean[g] += y[i]; });
  counts.forEach((c, g) => { mean[g] /= c; });
  const least = place.reduce((sum, g, i) => sum + (y[i] - mean[g]) ** 2 / 2, 0);
  const distinct = new Float64Array(count * d);
  first.forEach((i, g) => distinct.set(x.subarray(i * d, (i + 1) * d), g * d));
  return { x, y, n, d, distinct: { x: distinct, y: mean, n: count, counts, roots: counts.map(Math.sqrt), place, least } };
}

// Fully-connected networks of Du et al. (2019), eq. (2): x^h = √(c/m) σ(W^h x^(h-1)), f = aᵀx^H, all weights N(0, 1).
export const scaleOf = ({ width, activation }) => Math.sqrt(ACTIVATIONS[activation].c / width);
export function start({ dim, width, depth }, seed, outputScale = 1) {
  const draw = random(seed), normal = (count) => Float64Array.from({ length: count }, draw.normal);
  const W = [...Array(depth).keys()].map((k) => normal(width * (k ? width : dim)));
  return { W, a: normal(width).map((v) => outputScale * v) };
}
export const copied = ({ W, a }) => ({ W: W.map((one) => one.slice()), a: a.slice() });

function dot(u, i, w, j, size) {
  let s = 0, t = 0, k = 0;
  for (; k + 1 < size; k += 2) { s += u[i + k] * w[j + k]; t += u[i + k + 1] * w[j + k + 1]; }
  return k < size ? s + t + u[i + k] * w[j + k] : s + t;
}
// u wᵀ for rows of u and rows of w.
export function product(u, n, w, m, size) {
  const out = new Float64Array(n * m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[i * m + j] = dot(u, i * size, w, j * size, size);
  return out;
}

// What matrices multiply, pre-activations of each layer, outputs.
export function forward(network, weights, x, n) {
  const { width: m, depth, dim, activation } = network, { value } = ACTIVATIONS[activation], scale = scaleOf(network);
  const inputs = [x], z = [];
  for (let k = 0; k < depth; k++) {
    z.push(product(inputs[k], n, weights.W[k], m, k ? m : dim));
    inputs.push(z[k].map((v) => scale * value(v)));
  }
  return { n, inputs, z, outputs: product(inputs[depth], n, weights.a, 1, m) };
}
// The derivatives of each example's output by the values (b) and pre-activations (g, without the scale) of each layer.
export function backward(network, weights, pass) {
  const { width: m, depth, activation } = network, { slope } = ACTIVATIONS[activation], { n } = pass, scale = scaleOf(network);
  const b = [], g = [], slopes = pass.z.map((z) => z.map(slope));
  for (let k = depth - 1; k >= 0; k--) {
    b[k] = new Float64Array(n * m);
    for (let i = 0; i < n; i++) {
      if (k === depth - 1) { b[k].set(weights.a, i * m); continue; }
      for (let j = 0; j < m; j++) {
        const behind = scale * g[k + 1][i * m + j], row = weights.W[k + 1];
        if (behind !== 0) for (let l = 0; l < m; l++) b[k][i * m + l] += behind * row[j * m + l];
      }
    }
    g[k] = b[k].map((v, at) => v * slopes[k][at]);
  }
  return { b, g, slopes };
}
const lossOf = (outputs, y) => outputs.reduce((sum, f, i) => sum + (f - y[i]) ** 2 / 2, 0);

// One step of gradient descent on ½ Σ (f - y)², in place; returns the loss before it.
export function descend(network, weights, data, eta) {
  const { width: m, depth, dim } = network, { n, x, y } = data, pass = forward(network, weights, x, n), scale = scaleOf(network);
  const loss = lossOf(pass.outputs, y);
  if (eta === 0 || !Number.isFinite(loss)) return loss;
  const { g } = backward(network, weights, pass);
  for (let i = 0; i < n; i++) {
    const r = eta * (pass.outputs[i] - y[i]);
    for (let k = 0; k < depth; k++) {
      const W = weights.W[k], u = pass.inputs[k], size = k ? m : dim;
      for (let j = 0; j < m; j++) {
        const by = r * scale * g[k][i * m + j];
        if (by !== 0) for (let l = 0; l < size; l++) W[j * size + l] -= by * u[i * size + l];
      }
    }
    for (let j = 0; j < m; j++) weights.a[j] -= r * pass.inputs[depth][i * m + j];
  }
  return loss;
}

// Eigenvalues of a symmetric matrix, falling, and its eigenvectors as rows: Householder and QL, as in EISPACK.
export function eigen(matrix, n, vectors = false) {
  const V = Float64Array.from(matrix), d = new Float64Array(n), e = new Float64Array(n), at = (k, j) => j * n + k;
  for (let j = 0; j < n; j++) d[j] = V[at(n - 1, j)];
  for (let i = n - 1; i > 0; i--) {
    let scale = 0, h = 0;
    for (let k = 0; k < i; k++) scale += Math.abs(d[k]);
    if (scale === 0) {
      e[i] = d[i - 1];
      for (let j = 0; j < i; j++) { d[j] = V[at(i - 1, j)]; V[at(i, j)] = V[at(j, i)] = 0; }
    } else {
      for (let k = 0; k < i; k++) { d[k] /= scale; h += d[k] * d[k]; }
      let f = d[i - 1], g = f > 0 ? -Math.sqrt(h) : Math.sqrt(h);
      e[i] = scale * g;
      h -= f * g;
      d[i - 1] = f - g;
      e.fill(0, 0, i);
      for (let j = 0; j < i; j++) {
        const column = j * n;
        f = d[j];
        V[at(j, i)] = f;
        g = e[j] + V[column + j] * f;
        for (let k = j + 1; k < i; k++) { g += V[column + k] * d[k]; e[k] += V[column + k] * f; }
        e[j] = g;
      }
      f = 0;
      for (let j = 0; j < i; j++) { e[j] /= h; f += e[j] * d[j]; }
      for (let j = 0; j < i; j++) e[j] -= (f / (h + h)) * d[j];
      for (let j = 0; j < i; j++) {
        f = d[j]; g = e[j];
        for (let k = j; k < i; k++) V[j * n + k] -= f * e[k] + g * d[k];
        d[j] = V[at(i - 1, j)];
        V[at(i, j)] = 0;
      }
    }
    d[i] = h;
  }
  if (vectors) for (let i = 0; i < n - 1; i++) {
    V[at(n - 1, i)] = V[at(i, i)];
    V[at(i, i)] = 1;
    const h = d[i + 1], next = (i + 1) * n;
    if (h !== 0) {
      for (let k = 0; k <= i; k++) d[k] = V[next + k] / h;
      for (let j = 0; j <= i; j++) {
        let g = 0;
        for (let k = 0; k <= i; k++) g += V[next + k] * V[j * n + k];
        for (let k = 0; k <= i; k++) V[j * n + k] -= g * d[k];
      }
    }
    for (let k = 0; k <= i; k++) V[next + k] = 0;
  }
  for (let j = 0; j < n; j++) {
    d[j] = vectors ? V[at(n - 1, j)] : V[at(j, j)];
    if (vectors) V[at(n - 1, j)] = 0;
  }
  if (vectors) V[at(n - 1, n - 1)] = 1;
  e.copyWithin(0, 1);
  e[n - 1] = 0;
  let shift = 0, size = 0;
  for (let l = 0; l < n; l++) {
    size = Math.max(size, Math.abs(d[l]) + Math.abs(e[l]));
    let m = l;
    while (m < n - 1 && Math.abs(e[m]) > Number.EPSILON * size) m++;
    if (m > l) do {
      let g = d[l], p = (d[l + 1] - g) / (2 * e[l]), r = Math.hypot(p, 1) * (p < 0 ? -1 : 1);
      d[l] = e[l] / (p + r);
      d[l + 1] = e[l] * (p + r);
      const beside = d[l + 1], h = g - d[l], below = e[l + 1];
      for (let i = l + 2; i < n; i++) d[i] -= h;
      shift += h;
      p = d[m];
      let c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
      for (let i = m - 1; i >= l; i--) {
        c3 = c2; c2 = c; s2 = s;
        g = c * e[i];
        const q = c * p;
        r = Math.hypot(p, e[i]);
        e[i + 1] = s * r;
        s = e[i] / r;
        c = p / r;
        p = c * d[i] - s * g;
        d[i + 1] = q + s * (c * g + s * d[i]);
        if (vectors) for (let k = 0, one = i * n, two = one + n; k < n; k++) {
          const v = V[two + k];
          V[two + k] = s * V[one + k] + c * v;
          V[one + k] = c * V[one + k] - s * v;
        }
      }
      p = (-s * s2 * c3 * below * e[l]) / beside;
      e[l] = s * p;
      d[l] = c * p;
    } while (Math.abs(e[l]) > Number.EPSILON * size);
    d[l] += shift;
    e[l] = 0;
  }
  const order = [...d.keys()].sort((i, j) => d[j] - d[i]), values = Float64Array.from(order, (i) => d[i]);
  if (!vectors) return { values };
  const rows = new Float64Array(n * n);
  order.forEach((i, k) => rows.set(V.subarray(i * n, (i + 1) * n), k * n));
  return { values, vectors: rows };
}
// The spectral norm of a matrix of so many rows.
export function spectral(a, rows, columns) {
  if (rows > columns) {
    const other = new Float64Array(a.length);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) other[j * rows + i] = a[i * columns + j];
    return spectral(other, columns, rows);
  }
  return Math.sqrt(Math.max(eigen(product(a, rows, a, rows, columns), rows).values[0], 0));
}

// The Gram matrix J Jᵀ of the outputs: products of what matrices multiply, times products of what is behind them.
export function gram(network, pass, g) {
  const { width: m, depth, dim } = network, { n, inputs } = pass, square = scaleOf(network) ** 2;
  const out = product(inputs[depth], n, inputs[depth], n, m);
  for (let k = 0; k < depth; k++) {
    const u = product(inputs[k], n, inputs[k], n, k ? m : dim), behind = product(g[k], n, g[k], n, m);
    for (let at = 0; at < out.length; at++) out[at] += square * u[at] * behind[at];
  }
  return out;
}

const norm = (v, from = 0, to = v.length) => { let s = 0; for (let k = from; k < to; k++) s += v[k] * v[k]; return Math.sqrt(s); };
const rowNorms = (v, n) => Float64Array.from({ length: n }, (_, i) => norm(v, (i * v.length) / n, ((i + 1) * v.length) / n));
const rowMost = (v, n) => Float64Array.from({ length: n }, (_, i) => v.subarray((i * v.length) / n, ((i + 1) * v.length) / n).reduce((most, one) => Math.max(most, Math.abs(one)), 0));

// What the proof ratio is made of at some weights, as `certificates.anchor` measures it: its lengths are larger by UP.
const UP = 1 + 1e-10, up = (v) => v.map((one) => one * UP);
export function measure(network, weights, data) {
  const { width: m, depth, dim, activation } = network, { x, y, n, roots } = data.distinct;
  const pass = forward(network, weights, x, n), { b, g, slopes } = backward(network, weights, pass);
  const weighed = (rows) => rows.map((v, at) => v * roots[Math.floor((at * n) / rows.length)]);
  const matrix = gram(network, pass, g).map((v, at) => v * roots[Math.floor(at / n)] * roots[at % n]);
  const errors = pass.outputs.map((f, i) => (f - y[i]) * roots[i]);
  const values = eigen(matrix, n).values, size = (k) => (k ? m : dim), { slope, kinked, ...known } = ACTIVATIONS[activation];
  const last = weighed(pass.inputs[depth]), columns = new Float64Array(m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) columns[j] += last[i * m + j] ** 2;
  return {
    ...known, n, depth, width: m, scale: scaleOf(network), gram: matrix, errors, eigenvalues: values, roots, pass,
    residual: norm(errors) * UP, s: Math.sqrt(Math.max(values[n - 1], 0)), S: Math.sqrt(Math.max(values[0], 0)),
    omega: weights.W.map((W, k) => (k ? spectral(W, m, m) : 0)),
    inputs: pass.inputs.slice(0, depth).map((u) => up(rowNorms(u, n))),
    allInputs: pass.inputs.slice(0, depth).map((u, k) => spectral(weighed(u), n, size(k))),
    b2: b.map((one) => up(rowNorms(one, n))), bMax: b.map((one) => up(rowMost(one, n))), g2: g.map((one) => up(rowNorms(one, n))),
    slopes: slopes.map((one) => rowMost(one, n)),
    largest: rowMost(weights.a, 1)[0], unit: Math.sqrt(rowMost(columns, 1)[0]) * UP,
    rows: weights.W.map((W) => up(rowNorms(W, m))), clearance: kinked ? pass.z.map((z) => z.map(Math.abs)) : null,
  };
}

// How fast the Jacobian can turn within a distance of the weights: `certificates.lipschitz`, where its recursion is
// explained. Arrays have a row for each example (or one for all) and a column for each of W^1, …, W^H, a.
const zeros = (rows, K) => new Float64Array(rows * K);
const plus = (a, times, b, rows) => { const K = a.length / rows; for (let i = 0; i < rows; i++) for (let w = 0; w < K; w++) a[i * K + w] += (times.length ? times[i] : times) * b[i * K + w]; return a; };
const into = (a, column, values, rows) => { const K = a.length / rows; for (let i = 0; i < rows; i++) a[i * K + column] += values.length ? values[i] : values; return a; };
function ball(at, radius, inputs, rows) {
  const K = at.depth + 1, x = [zeros(rows, K)], z = [], seen = [];
  for (let k = 0; k < at.depth; k++) {
    z.push(plus(zeros(rows, K), at.omega[k], x[k], rows));
    seen.push(rowNorms(x[k], rows).map((far, i) => inputs[k][i] + radius * far));
    into(z[k], k, seen[k], rows);
    x.push(plus(zeros(rows, K), at.scale * at.lipschitz, z[k], rows));
  }
  return { x, z, inputs: seen };
}
function tangents(at, inputs, slopes, rows) {
  const K = at.depth + 1, x = [zeros(rows, K)], z = [];
  for (let k = 0; k < at.depth; k++) {
    z.push(into(plus(zeros(rows, K), at.omega[k], x[k], rows), k, inputs[k], rows));
    x.push(plus(zeros(rows, K), slopes[k].map((v) => at.scale * v), z[k], rows));
  }
  return { x, z };
}
function tangentsNear(at, radius, near, slopes, bends, there, rows) {
  const K = at.depth + 1, x = [zeros(rows, K)], z = [];
  let change = zeros(rows, K);
  for (let k = 0; k < at.depth; k++) {
    const off = plus(plus(zeros(rows, K), at.omega[k], change, rows), radius, x[k], rows);
    into(off, k, rowNorms(near.x[k], rows).map((far) => radius * far), rows);
    z.push(plus(there.z[k].slice(), 1, off, rows));
    const bend = slopes[k].map((v, i) => at.scale * Math.min(bends[k][i], Math.max(at.lipschitz - v, 0)));
    change = plus(plus(zeros(rows, K), slopes[k].map((v) => at.scale * v), off, rows), bend, z[k], rows);
    x.push(plus(there.x[k + 1].slice(), 1, change, rows));
  }
  return { x, z };
}
function behind(at, radius, each) {
  const K = at.depth + 1, rows = at.n, columns = [], g = [];
  let change = into(zeros(rows, K), at.depth, 1, rows);
  for (let k = at.depth - 1; k >= 0; k--) {
    const far = rowNorms(change, rows).map((v) => radius * v);
    columns[k] = at.bMax[k].map((v, i) => v + far[i]);
    const turn = plus(plus(zeros(rows, K), at.bMax[k].map((v) => at.smoothness * v), each.z[k], rows), at.lipschitz, change, rows);
    const moves = rowNorms(turn, rows);
    g[k] = at.g2[k].map((v, i) => Math.min(at.lipschitz * (at.b2[k][i] + far[i]), v + radius * moves[i]));
    change = into(plus(zeros(rows, K), at.scale * at.omega[k], turn, rows), k, g[k].map((v) => at.scale * v), rows);
  }
  return { columns, g };
}
// The largest eigenvalue of a small matrix without negative entries, as max (Qv)_i / v_i.
function top(q, K) {
  if (!(Math.max(...q) > 0)) return 0;
  const { values, vectors } = eigen(q, K, true), v = Array.from(vectors.subarray(0, K), (one) => Math.abs(one) + 1e-12);
  let bound = 0, rows = 0;
  for (let i = 0; i < K; i++) {
    let image = 0, sum = 0;
    for (let j = 0; j < K; j++) { image += q[i * K + j] * v[j]; sum += q[i * K + j]; }
    bound = Math.max(bound, image / v[i]);
    rows = Math.max(rows, sum);
  }
  return bound >= values[0] ? Math.min(bound, rows) : rows;
}
const crossed = (q, K, column, times, v, i) => { for (let w = 0; w < K; w++) { q[column * K + w] += times * v[i * K + w]; q[w * K + column] += times * v[i * K + w]; } };
export function lipschitz(at, radius) {
  const K = at.depth + 1, one = at.allInputs.map((v) => Float64Array.of(v)), most = (each) => each.map((v) => Float64Array.of(Math.max(...v)));
  const each = ball(at, radius, at.inputs, at.n), whole = ball(at, radius, one, 1), { columns, g } = behind(at, radius, each);
  const bends = each.z.map((z) => rowNorms(z, at.n).map((far) => at.smoothness * radius * far));
  const own = tangentsNear(at, radius, each, at.slopes, bends, tangents(at, at.inputs, at.slopes, at.n), at.n);
  const all = tangentsNear(at, radius, whole, most(at.slopes), most(bends), tangents(at, one, most(at.slopes), 1), 1);
  const squares = zeros(K, K);
  let separate = 0;
  for (let i = 0; i < at.n; i++) {
    const q = zeros(K, K);
    for (let k = 0; k < at.depth; k++) {
      const bend = at.scale * at.smoothness * columns[k][i], z = own.z[k];
      for (let v = 0; v < K; v++) for (let w = 0; w < K; w++) q[v * K + w] += bend * z[i * K + v] * z[i * K + w];
      crossed(q, K, k, at.scale * g[k][i], own.x[k], i);
    }
    crossed(q, K, at.depth, 1, own.x[at.depth], i);
    separate += (at.roots[i] * top(q, K)) ** 2;
    q.forEach((v, entry) => { squares[entry] += (v * at.roots[i]) ** 2; });
  }
  const q = zeros(K, K);
  for (let k = 0; k < at.depth; k++) {
    const bend = (at.scale * at.smoothness * Math.max(...columns[k])) / 2, far = new Float64Array(K);
    for (let i = 0; i < at.n; i++) for (let w = 0; w < K; w++) far[w] = Math.max(far[w], own.z[k][i * K + w]);
    for (let v = 0; v < K; v++) for (let w = 0; w < K; w++) q[v * K + w] += bend * (far[v] * all.z[k][w] + all.z[k][v] * far[w]);
    crossed(q, K, k, at.scale * Math.max(...g[k]), all.x[k], 0);
  }
  crossed(q, K, at.depth, 1, all.x[at.depth], 0);
  return Math.min(Math.sqrt(separate), top(squares.map(Math.sqrt), K), top(q, K));
}

// Radii at which Theorem 1 of docs/theory/certificates.md holds, as `certificates.staircase` and `.nested` look for them.
function oneConstant(rho, s, constantAt) {
  let radius = (2 * rho) / s, best = null;
  for (let turn = 0; turn < 6; turn++) {
    const constant = constantAt(radius), square = s * s - 2 * constant * rho;
    if (!(square > 0)) return best;
    const root = Math.sqrt(square), smallest = (2 * rho) / (s + root);
    const wider = smallest + Math.min(1e-6 * smallest, constant > 0 ? (0.1 * root) / constant : Infinity);
    if (wider > radius) return best;
    best = { radii: [wider], constants: [constantAt(wider)] };
    if (wider >= radius * (1 - 1e-6)) return best;
    radius = wider;
  }
  return best;
}
function stairs(rho, s, constantAt, cells) {
  const step = (2 * rho) / s / cells, radii = [], constants = [];
  let m = 0, whole = 0;
  for (let j = 1; j <= 2 * cells; j++) {
    radii.push(j * step);
    constants.push(constantAt(j * step));
    whole += m * step + (constants.at(-1) * step * step) / 2;
    m += constants.at(-1) * step;
    if (m > s) return null;
    if (rho - s * radii.at(-1) + whole < -1e-12 * rho) return { radii, constants };
  }
  return null;
}
function climb(rho, s, constantAt) {
  if (2 * constantAt(0) * rho >= s * s) return null;
  for (const cells of [1, 8, 64, 512]) {
    const found = cells === 1 ? oneConstant(rho, s, constantAt) : stairs(rho, s, constantAt, cells);
    if (found) return found;
  }
  return null;
}
function nested(at, rho) {
  if (at.depth !== 1 || at.clearance) return null;
  const longest = Math.max(...at.inputs[0]), all = at.allInputs[0], { scale, lipschitz: first, smoothness, s, largest } = at;
  const q = scale * all * first, p = scale * all * longest * smoothness, row = (at.unit / scale) * UP, cells = 2000;
  const step = (2 * rho) / s / cells, radii = [], constants = [];
  let m = 0, whole = 0, time = 0, cap = largest;
  for (let j = 1; j <= 2 * cells; j++) {
    const t = j * step;
    let constant, nextM, nextTime, found = false;
    for (let turn = 0; turn < 60 && !found; turn++) {
      constant = ((p * cap) / 2 + Math.hypot((p * cap) / 2, q)) * (1 + 1e-12);
      nextM = m + constant * step;
      if (!(nextM < s)) return null;
      nextTime = time + step / (s - nextM);
      const moves = Math.min(t, scale * cap * first * all * nextTime), needed = scale * (row + first * all * moves) * nextTime;
      const wanted = (largest + Math.min(t, needed)) * (1 + 1e-9);
      found = cap > wanted * (1 - 1e-10);
      if (!found) cap = wanted * (1 + 1e-8);
    }
    if (!found) return null;
    whole += m * step + (constant * step * step) / 2;
    [m, time] = [nextM, nextTime];
    radii.push(t);
    constants.push(constant);
    if (rho - s * t + whole < -1e-12 * rho) return { radii, constants };
  }
  return null;
}
// Whether Theorem 1 concludes from these radii, in ordinary arithmetic.
function concludes(rho, s, { radii, constants }) {
  let m = 0, whole = 0, t = 0;
  radii.forEach((end, j) => { const step = end - t; whole += m * step + (constants[j] * step * step) / 2; m += constants[j] * step; t = end; });
  return s > m && rho - s * t + whole < 0;
}
// The least of |z| / (R |v|) over all ReLU units: above 1 none can switch within the radius.
export function signSlack(at, radius) {
  if (!at.clearance) return Infinity;
  const K = at.depth + 1, m = at.width, near = ball(at, radius, at.inputs, at.n);
  let least = Infinity;
  for (let k = 0; k < at.depth; k++) for (let i = 0; i < at.n; i++) for (let j = 0; j < m; j++) {
    let square = 0;
    for (let w = 0; w < K; w++) square += (at.rows[k][j] * near.x[k][i * K + w] + (w === k ? near.inputs[k][i] : 0)) ** 2;
    const far = radius * Math.sqrt(square) * UP;
    if (far > 0) least = Math.min(least, at.clearance[k][i * m + j] / far);
  }
  return least;
}

// The proof ratio h = Λρ/s²: at the radius of the proof, or at 2ρ/s where there is none; and why there is none.
export function proofRatio(at) {
  const { residual, s } = at, rho = Math.max(residual, 1e-300), none = (obstacle) => ({ h: s > 0 ? ratio(lipschitz(at, (2 * residual) / s)) : Infinity, obstacle });
  const ratio = (constant) => (constant * residual) / s ** 2;
  if (!(s > 0)) return none("the Gram matrix is singular to working precision");
  const found = climb(rho, s, (radius) => lipschitz(at, radius)) ?? nested(at, rho);
  if (!found || !concludes(rho, s, found)) return none("");
  if (signSlack(at, found.radii.at(-1)) <= 1) return none("a ReLU unit could switch on the way, which the theorem does not allow");
  return { h: ratio(found.constants.at(-1)), obstacle: "", radius: found.radii.at(-1) };
}

// The loss that a fixed Gram matrix foretells after k steps.
export function foretold(at, eta, least = 0) {
  const { values, vectors } = eigen(at.gram, at.n, true), parts = product(vectors, at.n, at.errors, 1, at.n);
  return (k) => parts.reduce((sum, c, i) => sum + (Math.abs(1 - eta * values[i]) ** k * c) ** 2 / 2, least);
}
