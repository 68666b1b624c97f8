// The room of papers: all statements with search, one statement with all that was measured, and measuring now.
import { slopeChart } from "./chart.js";
import { ask, badge, empty, make, place, short, sorry } from "./parts.js";

let known = null; // the statements do not change while the lab runs
const SHOWN = 30; // cards at a time

export function papers(main, rest) {
  const leaving = new AbortController();
  const [name, query] = rest.split("?");
  if (name) one(main, name, leaving.signal);
  else all(main, new URLSearchParams(query ?? ""), leaving.signal);
  return () => leaving.abort();
}

async function all(main, asked, signal) {
  main.append(empty("Opening the papers…"));
  try {
    known ??= await ask("rooms/papers", { signal });
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(sorry(error.message));
    return;
  }
  if (signal.aborted) return;
  const rows = known.statements.map((row) => ({ ...row, words: `${row.name} ${row.spoken} ${known.papers[row.paper]} ${row.title} ${row.role} ${row.why} ${row.erratum}`.toLowerCase() }));
  const count = make("span", { class: "note", "aria-live": "polite" });
  const list = make("div", { class: "stack" });
  const said = make("div", { "aria-live": "polite" });
  const fields = {
    q: make("input", { type: "search", "aria-label": "Words", placeholder: "Words, as in gradient or lemma 4.1", value: asked.get("q") ?? "" }),
    paper: choice("Paper", [["", "all papers"], ...Object.entries(known.papers)], asked.get("paper")),
    kind: choice("Kind", [["", "all kinds"], ...[...new Set(rows.map((row) => row.kind))].sort().map((kind) => [kind, kind])], asked.get("kind")),
    outcome: choice("Outcome", [["", "any outcome"], ["holds", "holds"], ["fails", "fails"], ["undecided", "undecided"], ["none", "nothing to compute"]], asked.get("outcome")),
  };
  const measure = make("button", { type: "button" });
  let chosen = [];
  const search = () => {
    const values = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value.trim()]));
    const words = values.q.toLowerCase().split(/\s+/).filter(Boolean);
    chosen = rows.filter((row) => words.every((word) => row.words.includes(word)) && (!values.paper || row.paper === values.paper)
      && (!values.kind || row.kind === values.kind) && (!values.outcome || (row.outcome ?? "none") === values.outcome));
    const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
    history.replaceState(null, "", query ? `#papers/?${query}` : "#papers");
    count.textContent = `${chosen.length} of ${rows.length} statements`;
    const able = chosen.filter((row) => row.checkable).length;
    measure.textContent = able === 1 ? "Measure it now" : `Measure these ${able} now`;
    measure.hidden = !able;
    list.replaceChildren();
    more(0);
  };
  const more = (from) => {
    list.append(...chosen.slice(from, from + SHOWN).map((row) => card(row, signal)));
    if (!chosen.length) list.append(empty("No statement is like that."));
    if (from + SHOWN < chosen.length) {
      const button = make("button", { type: "button", onclick: () => { button.remove(); more(from + SHOWN); list.children[from + SHOWN]?.querySelector("a")?.focus(); } }, `Show more (${chosen.length - from - SHOWN} left)`);
      list.append(button);
    }
  };
  for (const field of Object.values(fields)) field.addEventListener("input", search);
  const form = make("form", { class: "search", role: "search", onsubmit: (event) => event.preventDefault() }, ...Object.values(fields));
  measure.onclick = () => many(measure, said, chosen.filter((row) => row.checkable), signal);
  main.replaceChildren(
    make("header", { class: "heading" }, make("h1", {}, "Papers"), count),
    make("p", { class: "soft" }, `Every theorem, lemma and claim of four papers, measured on real networks. Outcomes are those of the ${known.study} study, until you measure again.`),
    form, make("div", { class: "actions" }, measure), said, list);
  search();
}

const choice = (label, options, chosen) => make("select", { "aria-label": label }, ...options.map(([value, text]) => make("option", { value, selected: value === (chosen ?? "") }, text)));

const outcomeOf = (row) => (row.outcome ? badge(row.outcome) : make("span", { class: "soft small" }, row.checkable ? "not measured" : "nothing to compute"));

function card(row, signal) {
  const said = make("div", { "aria-live": "polite" });
  const link = make("a", { href: `#papers/${place(row.name)}` }, row.spoken);
  const button = make("button", { type: "button", class: "small", "aria-label": `Measure ${row.spoken} now` }, "Measure now");
  button.onclick = () => measuring(button, said, [row.name], "quick", 0, signal, (found) => said.replaceChildren(outcome(found.found, found.seconds)));
  return make("article", { class: "card statement" },
    make("header", {}, make("h2", {}, link), make("span", { class: "soft small" }, known.papers[row.paper]), make("span", { class: "note" }, outcomeOf(row))),
    make("p", { class: "said" }, row.title),
    row.says.length ? says(row.says, true) : null,
    row.numbers ? make("p", { class: "soft small number" }, `measured: ${row.numbers}`) : null,
    row.checkable ? make("div", { class: "actions" }, button) : null,
    said);
}

// What a statement says; its formulas come as MathML out of this package's own files.
function says(pieces, brief = false) {
  const room = make("div", { class: "says" });
  let paragraph = make("p", {});
  const close = () => { if (paragraph.childNodes.length) room.append(paragraph); paragraph = make("p", {}); };
  for (const piece of pieces) {
    if (piece.break) { if (brief) break; close(); }
    else if (piece.math) {
      const math = new DOMParser().parseFromString(piece.math, "text/html").querySelector("math");
      if (piece.display) { close(); room.append(make("div", { class: "scroll display" }, document.importNode(math, true))); }
      else { if (paragraph.lastChild?.nodeName === "math") paragraph.append(" "); paragraph.append(document.importNode(math, true)); }
    } else {
      let text = piece.text ?? "";
      const mark = /^[.,;:)]+/.exec(text)?.[0] ?? "";
      if (mark && paragraph.lastChild?.nodeName === "math") { // no line begins with a comma
        paragraph.lastChild.replaceWith(make("span", { class: "whole" }, paragraph.lastChild.cloneNode(true), mark));
        text = text.slice(mark.length);
      }
      paragraph.append(piece.code ? make("code", {}, piece.code) : text);
    }
  }
  close();
  return room;
}

async function one(main, name, signal) {
  const back = make("p", {}, make("a", { href: "#papers" }, "← All statements"));
  main.append(back, empty("Looking…"));
  let row;
  try {
    row = await ask(`rooms/papers/${name}`, { signal });
    if (!row.says) throw new Error("There is no such statement.");
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(back, sorry(error.message));
    return;
  }
  const facts = [row.paper_title, row.kind, `part of the proof: ${row.role}`, row.part === "main" ? "in the main text" : "in the appendix", row.checkable && `checked as: ${row.check}`, row.network !== "none" && `network: ${row.network}`];
  const known = [row.why && ["Why it does not hold", row.why], row.erratum && ["About the printed text", row.erratum]].filter(Boolean);
  main.replaceChildren(back, make("article", { class: "card statement" },
    make("header", {}, make("h1", {}, row.spoken), make("span", { class: "note" }, outcomeOf(row))),
    make("p", { class: "said" }, row.title),
    says(row.says),
    ...known.map(([title, text]) => make("p", { class: "small" }, make("b", {}, `${title}: `), text)),
    make("ul", { class: "facts" }, ...facts.filter(Boolean).map((fact) => make("li", {}, fact)))));
  const rooms = make("div", { class: "stack" });
  if (row.checkable) rooms.append(measureCard(row, signal));
  if (row.found) rooms.append(make("section", { class: "card" },
    make("header", {}, make("h2", {}, `The ${row.study} study`), make("span", { class: "note" }, `seed ${row.seed}`)), result(row.found)));
  if (!row.checkable) rooms.append(make("p", { class: "soft" }, "There is nothing to compute about this one by itself."));
  main.append(rooms);
}

function measureCard(row, signal) {
  const study = choice("Study", [["quick", "quick"], ["standard", "standard"], ["deep", "deep (may take hours)"]], "quick");
  const seed = make("input", { type: "number", min: "0", max: "4294967295", step: "1", value: "0", "aria-label": "Seed" });
  const button = make("button", { type: "button", class: "main" }, "Measure");
  const said = make("div", { "aria-live": "polite" });
  button.onclick = () => measuring(button, said, [row.name], study.value, Number(seed.value), signal, (found) => {
    said.replaceChildren(make("p", { class: "soft small" }, `Study ${study.value}, seed ${seed.value}: ${short(found.found.seconds ?? found.seconds, 2)} seconds.`), result(found.found));
  });
  return make("section", { class: "card" }, make("header", {}, make("h2", {}, "Measure it now")),
    make("div", { class: "measure" }, make("label", {}, "study ", study), make("label", {}, "seed ", seed), button), said);
}

const outcome = (found, seconds) => make("p", { class: "small" }, badge(found.outcome), ` now, in ${short(seconds, 2)} seconds: `, make("span", { class: "number" }, found.numbers || found.note || found.compared));

// What came out: all parts with their numbers, and a chart for every exponent.
function result(found) {
  const parts = found.parts ?? [found];
  const block = (title, items) => (items?.length ? make("section", {}, make("h3", {}, title), make("div", { class: "checks" }, ...items.map(part))) : null);
  return make("div", { class: "stack" },
    parts.length > 1 || found.parts ? make("p", {}, badge(found.outcome), found.note ? ` ${found.note}` : "") : null,
    make("section", { class: "checks" }, ...parts.map(part)),
    block("What it supposes", found.hypotheses),
    found.assumptions?.length ? make("section", {}, make("h3", {}, "Choices where the paper leaves one"), make("ul", {}, ...found.assumptions.map((text) => make("li", {}, text)))) : null);
}

function part(check) {
  const inner = (check.parts ?? []).map(part);
  return make("div", { class: "check" },
    make("p", {}, badge(check.outcome), " ", check.compared),
    make("p", { class: "soft small number" }, [check.numbers, check.note, check.samples > 1 ? `${check.samples} samples` : ""].filter(Boolean).join("; ")),
    check.slope ? slopeChart(check.slope, check.compared) : null, ...inner);
}

// Measure, with the button to stop it; `hear` gets what is found.
async function measuring(button, room, names, study, seed, signal, hear) {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  signal.addEventListener("abort", stop);
  const text = make("span", { class: "busy" }, "Starting");
  const bar = names.length > 1 ? make("progress", { max: names.length, value: 0, "aria-label": "Measured" }) : null;
  const halt = make("button", { type: "button", onclick: stop }, "Stop");
  button.disabled = true;
  room.replaceChildren(make("p", { class: "waiting soft" }, text, bar, halt));
  let error = "";
  try {
    await lines("rooms/measure", { names, study, seed }, stopping.signal, (line) => {
      const count = names.length > 1 ? `${(line.done ?? bar.value)} of ${names.length}, ` : "";
      if (line.seconds !== undefined) text.textContent = `Measuring: ${count}${Math.round(line.seconds)} s`;
      if (bar && line.done !== undefined) bar.value = line.done;
      if (line.state === "found") hear(line);
      if (line.state === "lost") error = line.text;
    });
  } catch (problem) {
    error = problem.name === "AbortError" ? "" : problem.message;
    if (problem.name === "AbortError" && names.length === 1) room.replaceChildren(make("p", { class: "soft small" }, "Stopped."));
  }
  signal.removeEventListener("abort", stop);
  button.disabled = false;
  room.querySelector(".waiting")?.remove();
  if (error) room.append(sorry(error));
}

// Measure many, and count what came out.
async function many(button, room, rows, signal) {
  const counts = { holds: 0, fails: 0, undecided: 0 };
  const surprises = [];
  const said = make("p", {});
  const working = make("div");
  room.replaceChildren(working, said);
  await measuring(button, working, rows.map((row) => row.name), "quick", 0, signal, ({ name, found, broken }) => {
    counts[found.outcome] += 1;
    if (broken || !found.as_expected) surprises.push(name);
    said.replaceChildren(...Object.entries(counts).filter(([, n]) => n).flatMap(([kind, n]) => [badge(kind), ` ${n} \u00a0 `]),
      surprises.length ? make("span", {}, "Not as expected: ", ...surprises.slice(0, 8).flatMap((one) => [make("a", { href: `#papers/${place(one)}` }, one), " "])) : "Nothing fails that should hold.");
  });
}

async function lines(address, body, signal, hear) {
  const answer = await fetch(address, { method: "POST", body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? "The lab refused to measure.");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n");
    rest = whole.pop();
    for (const line of whole) if (line) hear(JSON.parse(line));
  }
}
