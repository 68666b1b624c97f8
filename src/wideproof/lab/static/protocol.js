// One message of the worker: a JSON header and arrays, as typed views of the same bytes (see frames.py).
const TYPES = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };

export function parse(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const message = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, type, shape, at] of message.arrays) {
    const size = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new TYPES[type](buffer, 4 + length + at, size);
    arrays[name].shape = shape;
  }
  return { ...message, arrays };
}
