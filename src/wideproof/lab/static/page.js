// The page: which room is open, light or dark, and the socket between the bench and its worker.
import { Bench } from "./bench.js";
import { parse } from "./protocol.js";
import { rooms } from "./rooms.js";

const main = document.getElementById("room");
const nav = document.getElementById("rooms");
const names = { bench: "Bench", proofs: "Proofs", papers: "Papers", sweeps: "Sweeps" };

// One socket for this tab. It stays open while other rooms are looked at, and is opened again when it was lost.
class Socket {
  constructor() { this.hear = () => {}; this.queue = []; this.wait = 500; this.open(); }
  open() {
    const address = new URL("socket", location.href);
    address.protocol = "ws:";
    address.hash = address.search = "";
    this.ws = new WebSocket(address);
    this.ws.binaryType = "arraybuffer";
    this.ws.onopen = () => { this.wait = 500; for (const text of this.queue.splice(0)) this.ws.send(text); };
    this.ws.onmessage = ({ data }) => this.hear(typeof data === "string" ? { ...JSON.parse(data), arrays: {} } : parse(data));
    this.ws.onclose = ({ code, reason }) => {
      if (code === 1008 || code === 1013) { this.hear({ kind: "error", text: reason || "the lab closed this page", arrays: {} }); return; }
      this.hear({ kind: "gone", text: "the lab does not answer: is it still running?", arrays: {} });
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, 8000);
    };
  }
  send(command) {
    const text = JSON.stringify(command);
    if (this.ws.readyState === WebSocket.OPEN) this.ws.send(text); else if (command.do === "configure") this.queue = [text];
  }
}

const socket = new Socket();
let bench = null;
let leave = () => {};

// `#papers/…` opens a room; everything else in the fragment is the state of the bench.
function show() {
  const [, name] = /^#(proofs|papers|sweeps)\b/.exec(location.hash) ?? [null, "bench"];
  leave();
  leave = () => {};
  main.replaceChildren();
  document.title = name === "bench" ? "Wideproof lab" : `${names[name]} · Wideproof lab`;
  for (const link of nav.children) link.toggleAttribute("aria-current", link.dataset.room === name);
  if (name === "bench") {
    bench ??= new Bench({ send: (command) => socket.send(command), files: true, state: location.hash.slice(1), remember });
    socket.hear = (message) => bench.hear(message);
    main.append(bench.element);
    bench.shown();
  } else {
    bench?.pause();
    leave = rooms[name](main, location.hash.slice(name.length + 2)) ?? (() => {});
  }
}

let last = "";
function remember(state) {
  last = state;
  if (!/^#(proofs|papers|sweeps)\b/.test(location.hash)) history.replaceState(null, "", `#${state}`);
  nav.querySelector("[data-room=bench]").href = `#${state}`;
}

for (const [room, text] of Object.entries(names)) {
  const link = document.createElement("a");
  link.href = room === "bench" ? location.hash || "#" : `#${room}`;
  link.dataset.room = room;
  link.textContent = text;
  nav.append(link);
}

addEventListener("hashchange", () => {
  if (bench && !/^#(proofs|papers|sweeps)\b/.test(location.hash) && location.hash.slice(1) !== last && location.hash.length > 1) bench.restore(location.hash.slice(1));
  show();
});

const root = document.documentElement;
const theme = (value) => { if (value) root.dataset.theme = value; else delete root.dataset.theme; dispatchEvent(new Event("themechange")); };
theme(localStorage.getItem("wideproof-theme"));
document.getElementById("theme").onclick = () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("wideproof-theme", dark ? "light" : "dark");
  theme(dark ? "light" : "dark");
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
show();
