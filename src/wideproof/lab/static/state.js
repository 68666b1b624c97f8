// The state of the bench, and how it is written into the address: only what differs from the defaults.
export const defaults = {
  data: { kind: "points", name: "circles", n: 40, noise: 0.1, seed: 0, classes: "", target: "", prepare: "auto", points: null },
  network: { name: "fully-connected", width: 256, depth: 2, activation: "tanh", trained: "all", scale: 1, step: 0.5, batch: 0, order: "subsets", momentum: 0, seed: 0 },
};

export const complete = ({ data = {}, networks = [{}] } = {}) => ({
  data: { ...defaults.data, ...data },
  networks: networks.map((network) => ({ ...defaults.network, ...network })),
});

export function write(settings) {
  const out = new URLSearchParams();
  const put = (prefix, values, usual) => {
    for (const [key, value] of Object.entries(values)) {
      if (key === "points") { if (value) out.set(`${prefix}points`, packed(value)); } else if (value !== usual[key]) out.set(prefix + key, value);
    }
  };
  put("", settings.data, defaults.data);
  put("a.", settings.networks[0], defaults.network);
  if (settings.networks[1]) { out.set("two", "1"); put("b.", settings.networks[1], defaults.network); }
  return out.toString();
}

export function read(text) {
  const from = new URLSearchParams(text);
  const get = (prefix, usual) => Object.fromEntries(Object.entries(usual).map(([key, value]) => {
    const found = from.get(prefix + key);
    if (found === null) return [key, value];
    if (key === "points") return [key, unpacked(found)];
    return [key, typeof value === "number" ? (Number.isFinite(Number(found)) ? Number(found) : value) : found];
  }));
  const networks = [get("a.", defaults.network)];
  if (from.has("two")) networks.push(get("b.", defaults.network));
  return { data: get("", defaults.data), networks };
}

// Points as base64 of 16-bit numbers: 8 characters for each.
function packed(points) {
  const numbers = new Int16Array(points.flatMap(([x, y, label]) => [x * 16000, y * 16000, label]).map(Math.round));
  return btoa(String.fromCharCode(...new Uint8Array(numbers.buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
function unpacked(text) {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const numbers = new Int16Array(bytes.buffer), points = [];
    for (let i = 0; i + 2 < numbers.length; i += 3) points.push([numbers[i] / 16000, numbers[i + 1] / 16000, numbers[i + 2]]);
    return points.length > 1 ? points : null;
  } catch { return null; }
}
