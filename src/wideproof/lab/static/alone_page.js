// The page without an installation: the lab's bench, answered by a worker in this page. It asks nothing of any host.
import { Bench } from "./bench.js";
import { forgetColours } from "./draw.js";

const tour = [
  {
    title: "Watch a network become provable",
    text: "Press Run. The dashed loss curve was computed from the Gram matrix before the first step. The proof meter falls with the loss; below ½ a theorem applies: up to rounding, gradient descent with small enough steps reaches zero loss from there.",
    settings: { data: { kind: "points", name: "blobs", n: 12 }, networks: [{ name: "fully-connected", width: 256, depth: 1, activation: "tanh" }] },
    pace: 400,
  },
  {
    title: "Two points that meet",
    text: "Drag a point onto one of the other colour. The smallest eigenvalue of the Gram matrix dies, and the meter rises: equal inputs cannot have different labels.",
    settings: { data: { kind: "points", name: "xor", n: 12, noise: 0 }, networks: [{ name: "fully-connected", width: 256, depth: 1, activation: "tanh" }] },
    pace: 60,
  },
  {
    title: "Width makes training lazy",
    text: "16 units against 256. The wide network follows its dashed prediction, and moves a smaller share of its length (Distance moved).",
    settings: { data: { kind: "points", name: "circles", n: 16 }, networks: [{ name: "fully-connected", width: 16, depth: 1, activation: "tanh" }, { name: "fully-connected", width: 256, depth: 1, activation: "tanh" }] },
    pace: 400,
  },
  {
    title: "The edge of stability",
    text: "The second network's steps are longer than 2/λmax. Its loss grows at first; then it slides to a flatter place, or blows up if its step size is larger still.",
    settings: { data: { kind: "points", name: "blobs", n: 16 }, networks: [{ name: "fully-connected", width: 128, depth: 1, activation: "tanh", step: 0.5 }, { name: "fully-connected", width: 128, depth: 1, activation: "tanh", step: 1.2 }] },
    pace: 10,
  },
];

const worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
const remember = (state) => history.replaceState(null, "", `#${state}`);
const bench = new Bench({ send: (command) => worker.postMessage(command), alone: true, tour, state: location.hash.slice(1), remember });
worker.onmessage = ({ data }) => {
  const arrays = Object.fromEntries(Object.entries(data.arrays).map(([name, [values, shape]]) => [name, Object.assign(values, { shape })]));
  bench.hear({ ...data, arrays });
};
worker.onerror = ({ message }) => bench.hear({ kind: "error", text: `the worker stopped: ${message}`, arrays: {} });
document.getElementById("room").replaceChildren(bench.element);

const root = document.documentElement;
const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const themed = () => { forgetColours(); dispatchEvent(new Event("themechange")); };
document.getElementById("theme").onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; themed(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
worker.postMessage({ do: "hello" });
