// Five stations: a sentence and a setting each.
const plain = { name: "fully-connected", width: 256, depth: 2, activation: "tanh" };
export const stations = [
  {
    title: "A first proof",
    text: "200 handwritten zeros and ones. The dashed curve was computed before training. Press Run: the meter falls, and below ½ convergence is a theorem.",
    settings: { data: { kind: "bundled", name: "digits", classes: "0,1", n: 200 }, networks: [{ ...plain, depth: 3 }] },
    pace: 60,
  },
  {
    title: "Width makes training lazy",
    text: "The same task for 32 and for 1024 units. The wide network follows its prediction, and its weights hardly move; the narrow one leaves it.",
    settings: { data: { kind: "points", name: "circles", n: 24 }, networks: [{ ...plain, width: 32, depth: 1 }, { ...plain, width: 1024, depth: 1 }] },
    pace: 0,
  },
  {
    title: "The edge of stability",
    text: "One step size just below 2/λmax, the other just above. Above it the largest part of the error grows with every step; move the slider down while it runs.",
    settings: { data: { kind: "points", name: "blobs", n: 20 }, networks: [{ ...plain, depth: 1, step: 0.97 }, { ...plain, depth: 1, step: 1.06 }] },
    pace: 60,
  },
  {
    title: "Two points that meet",
    text: "Drag a point onto one of the other colour. The smallest eigenvalue of the Gram matrix dies, the meter rises, and no width can help: equal inputs cannot have different labels.",
    settings: { data: { kind: "points", name: "squares", n: 12, noise: 0 }, networks: [{ ...plain, depth: 1 }] },
    pace: 0,
  },
  {
    title: "Lazy or learning features",
    text: "The same network twice; the second one's read-out starts a tenth as large. It has to move its hidden weights, so the prediction from the start is wrong for it.",
    settings: { data: { kind: "points", name: "circles", n: 24 }, networks: [{ ...plain, depth: 1, scale: 1 }, { ...plain, depth: 1, scale: 0.1 }] },
    pace: 0,
  },
];
