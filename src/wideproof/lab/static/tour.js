// Five stations: a sentence and a setting each.
const plain = { name: "fully-connected", width: 256, depth: 2, activation: "tanh" };
export const stations = [
  {
    title: "A first proof",
    text: "200 handwritten zeros and ones. The dashed loss curve was computed before training. Press Run: the proof meter falls, and once it is below ½ it is a theorem that training reaches zero loss.",
    settings: { data: { kind: "bundled", name: "digits", classes: "0,1", n: 200 }, networks: [{ ...plain, depth: 3 }] },
    pace: 60,
  },
  {
    title: "Width makes training lazy",
    text: "A network is lazy when it fits the data while its weights hardly move; then training can be foretold. Press Run: of 32 and 1024 units the wide network follows its dashed prediction, and moves a tenth as far (Distance moved, below).",
    settings: { data: { kind: "points", name: "circles", n: 24 }, networks: [{ ...plain, width: 32, depth: 1 }, { ...plain, width: 1024, depth: 1 }] },
    pace: 400,
  },
  {
    title: "The edge of stability",
    text: "Network 2's steps are longer than 2/λmax, where λmax is the largest eigenvalue of the Gram matrix. Press Run: its loss grows at first. Then it slides to a flatter place (last chart: back below the line at 2), or blows up if you move its step size further up.",
    settings: { data: { kind: "points", name: "blobs", n: 20 }, networks: [{ ...plain, depth: 1, step: 0.5 }, { ...plain, depth: 1, step: 1.2 }] },
    pace: 10,
  },
  {
    title: "Two points that meet",
    text: "The Gram matrix says how alike two examples are to the gradient. Drag a point onto one of the other colour: its smallest eigenvalue dies and the meter rises. Equal inputs cannot have different labels, whatever the width; nearly equal ones only take very long.",
    settings: { data: { kind: "points", name: "squares", n: 12, noise: 0 }, networks: [{ ...plain, depth: 1 }] },
    pace: 400,
  },
  {
    title: "Lazy, or learning features",
    text: "The same network twice; the second one's last layer starts a tenth as large, so it has to move its hidden weights: it learns features. Press Run: the prediction from the start is wrong for it, and right for the first.",
    settings: { data: { kind: "points", name: "circles", n: 24 }, networks: [{ ...plain, depth: 1, scale: 1 }, { ...plain, depth: 1, scale: 0.1 }] },
    pace: 400,
  },
];
