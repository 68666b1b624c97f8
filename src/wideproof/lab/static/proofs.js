// The room of proofs: those in the lab's folder, and certificates that are dropped here.
import { ask, badge, bytes, empty, make, place, short, sorry, table, when } from "./parts.js";

const FILES = ["certificate.json", "arrays.safetensors"];

export function proofs(main, rest) {
  const leaving = new AbortController();
  const name = decode(rest);
  if (name) one(main, name, leaving.signal);
  else all(main, leaving.signal);
  return () => leaving.abort();
}

const decode = (text) => { try { return decodeURIComponent(text); } catch { return ""; } };

async function all(main, signal) {
  const list = make("div", { class: "stack" }, empty("Looking…"));
  const where = make("span", { class: "note" });
  main.append(bring(main, signal), make("header", { class: "heading" }, make("h1", {}, "Proofs"), where), list);
  try {
    const found = await ask("rooms/proofs", { signal });
    where.append(`in ${found.folder}`);
    if (found.proofs.length) list.replaceChildren(...found.proofs.map((proof) => card(proof, signal)));
    else list.replaceChildren(empty("There is no proof here yet: keep one on the bench, or write one with wideproof prove … --out proofs/NAME."));
    if (found.more) list.append(make("p", { class: "soft" }, "There are more folders; the newest are shown."));
  } catch (error) {
    if (!signal.aborted) list.replaceChildren(sorry(error.message));
  }
}

async function one(main, name, signal) {
  const room = make("div", { class: "stack" }, empty("Looking…"));
  main.append(make("p", {}, make("a", { href: "#proofs" }, "← All proofs")), room);
  try {
    const found = (await ask("rooms/proofs", { signal })).proofs.find((proof) => proof.name === name);
    if (!found) { room.replaceChildren(sorry("There is no such proof any more.")); return; }
    room.replaceChildren(card(found, signal, true));
    if (found.report) room.append(make("iframe", { class: "report", sandbox: "", src: `rooms/proofs/${place(name)}/report.html`, title: `Report of ${name}` }));
  } catch (error) {
    if (!signal.aborted) room.replaceChildren(sorry(error.message));
  }
}

function card(proof, signal, alone = false) {
  const address = `rooms/proofs/${place(proof.name)}`;
  const said = make("div", { "aria-live": "polite" });
  const facts = [proof.network, proof.data && `${proof.data}${proof.n ? ` (${proof.n} rows)` : ""}`, proof.prepared && `prepared by ${proof.prepared}`];
  const again = make("button", { type: "button", onclick: () => judge(again, said, () => ask(`${address}/verify`, { method: "POST", signal })) }, "Verify again now");
  const title = alone || !proof.report ? proof.name : make("a", { href: `#proofs/${place(proof.name)}` }, proof.name);
  return make("article", { class: "card" },
    make("header", {}, badge(proof.outcome), make("h2", {}, title), make("span", { class: "note" }, when(proof.when))),
    make("p", { class: "said" }, proof.headline),
    make("ul", { class: "facts" }, ...facts.filter(Boolean).map((fact) => make("li", {}, fact))),
    make("div", { class: "actions" },
      proof.report && !alone ? make("a", { class: "button", href: `#proofs/${place(proof.name)}` }, "Read the report") : null,
      proof.report ? make("a", { class: "button", href: `${address}/report.html`, target: "_blank", rel: "noopener" }, "Report in a new tab") : null,
      proof.bytes ? make("a", { class: "button", href: `${address}/certificate.zip`, download: true }, `Download the certificate (${bytes(proof.bytes)})`) : null,
      proof.bytes ? again : null),
    said);
}

// Ask for a verdict and show it; the button waits meanwhile.
async function judge(button, room, asking) {
  button.disabled = true;
  room.replaceChildren(make("p", { class: "busy soft" }, "Verifying with rigorous bounds on all rounding"));
  try {
    room.replaceChildren(verdict(await asking()));
  } catch (error) {
    if (error.name !== "AbortError") room.replaceChildren(sorry(error.message));
  }
  button.disabled = false;
}

function verdict(found) {
  const words = { proved: "proved", "not proved": "fails", malformed: "malformed" };
  const cost = `${found.precision ? `${found.precision} bits, ` : ""}${short(found.seconds, 3)} seconds${found.followed ? `, ${found.followed} steps followed from the start` : ""}`;
  return make("section", { class: "verdict", "aria-label": "Verdict" },
    make("p", {}, badge(words[found.answer] ?? found.answer), " ", make("span", { class: "soft small" }, cost)),
    make("p", { class: "said" }, found.statement || found.reason),
    found.statement ? make("p", { class: "soft small" }, found.reason) : null,
    found.checks.length ? make("details", { open: found.answer !== "proved" }, make("summary", {}, `${found.checks.length} inequalities`),
      table(["inequality", "#claimed", "#recomputed"], found.checks.map(([name, claimed, own]) => [name, short(claimed, 9), short(own, 9)]), "Inequalities")) : null);
}

// A place for certificates: dropped anywhere in this room, or chosen.
function bring(main, signal) {
  const said = make("div", { "aria-live": "polite" });
  const input = make("input", { type: "file", multiple: true, accept: ".zip,.json,.safetensors", hidden: true });
  const button = make("button", { type: "button", onclick: () => input.click() }, "Choose files…");
  const zone = make("div", { class: "drop large" },
    make("p", {}, "Drop a certificate here: a .zip, its two files certificate.json and arrays.safetensors, or its folder."), button, input);
  const take = (collecting) => judge(button, said, async () => send(await collecting, signal));
  input.onchange = () => { take(packed([...input.files])); input.value = ""; };
  const over = (event) => { event.preventDefault(); zone.classList.toggle("over", event.type === "dragover"); };
  for (const kind of ["dragover", "dragleave"]) addEventListener(kind, over, { signal });
  addEventListener("drop", (event) => {
    over(event);
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    take(entries.length ? within(entries).then(packed) : packed([...event.dataTransfer.files]));
  }, { signal });
  return make("section", { class: "card" },
    make("header", {}, make("h2", {}, "Verify a certificate"), make("span", { class: "note" }, "by a program that shares no code with the prover")), zone, said);
}

// The files of what was dropped: folders are opened two levels deep, and of those only a certificate's files are taken.
async function within(entries, depth = 0) {
  const found = [];
  for (const entry of entries.slice(0, 200)) {
    if (entry.isFile && (depth === 0 || FILES.includes(entry.name))) found.push(await new Promise((good, bad) => entry.file(good, bad)));
    else if (entry.isDirectory && depth < 2) found.push(...await within(await listed(entry.createReader()), depth + 1));
  }
  return found;
}

async function listed(reader) {
  const found = [];
  for (;;) {
    const part = await new Promise((good, bad) => reader.readEntries(good, bad));
    if (!part.length || found.length > 1000) return found;
    found.push(...part);
  }
}

async function packed(files) {
  const zip = files.find((file) => file.name.toLowerCase().endsWith(".zip"));
  if (zip) return { body: zip, query: "" };
  const [note, arrays] = FILES.map((name) => files.filter((file) => file.name === name));
  if (note.length !== 1 || arrays.length !== 1) throw new Error(`A certificate is one ${FILES[0]} and one ${FILES[1]}, or a .zip of them.`);
  return { body: new Blob([note[0], arrays[0]]), query: `?document=${note[0].size}` };
}

function send({ body, query }, signal) {
  if (body.size > 256 * 2 ** 20) throw new Error("A certificate is at most 256 MB here: use wideproof verify for larger ones.");
  return ask(`rooms/verify${query}`, { method: "POST", body, signal });
}
