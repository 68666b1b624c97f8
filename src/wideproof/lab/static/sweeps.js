// The room of sweeps: how far they are, asked again every two seconds, and figures and exponents of those with results.
import { ask, badge, empty, isDark, make, place, short, sorry, table, when } from "./parts.js";

const OFTEN = 2000; // milliseconds between two looks

export function sweeps(main, rest) {
  const leaving = new AbortController();
  const [root, name] = rest.split("/");
  if (name) one(main, `rooms/sweeps/${root}/${name}`, leaving.signal);
  else all(main, leaving.signal);
  return () => leaving.abort();
}

// Look now and then until the room is left; `show` is called when something has changed.
async function watch(address, signal, show, fail) {
  let last = "";
  while (!signal.aborted) {
    try {
      const found = await ask(address, { signal });
      const text = JSON.stringify(found);
      if (text !== last && !signal.aborted) show(found);
      last = text;
    } catch (error) {
      if (!signal.aborted && last !== error.message) fail(error.message);
      last = error.message;
    }
    await new Promise((done) => setTimeout(done, document.hidden ? 5 * OFTEN : OFTEN));
  }
}

function all(main, signal) {
  const list = make("div", { class: "stack" }, empty("Looking…"));
  const where = make("span", { class: "note" });
  main.append(make("header", { class: "heading" }, make("h1", {}, "Sweeps"), where), list);
  watch("rooms/sweeps", signal, (found) => {
    where.textContent = `in ${found.folders.join(" and ")}`;
    const focused = document.activeElement?.getAttribute("href");
    if (found.sweeps.length) list.replaceChildren(...found.sweeps.map((sweep) => card(sweep)));
    else list.replaceChildren(empty("There is no sweep here yet: wideproof sweep --list shows the studies that come with this program, and wideproof sweep NAME runs one."));
    if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }, (text) => list.replaceChildren(sorry(text)));
}

function card(sweep, alone = false) {
  const address = `#sweeps/${place(sweep.root, sweep.name)}`;
  const total = sweep.total ? ` of ${sweep.total}` : "";
  const counts = `${sweep.done}${total} tasks done${sweep.failed ? `, ${sweep.failed} failed` : ""}`;
  return make("article", { class: "card" },
    make("header", {}, badge(sweep.state), make(alone ? "h1" : "h2", {}, alone ? sweep.study : make("a", { href: address }, sweep.study)),
      make("span", { class: "soft small" }, sweep.name === sweep.study ? "" : `in ${sweep.name}`), make("span", { class: "note" }, when(sweep.when))),
    make("p", { class: "said" }, sweep.title),
    make("div", { class: "waiting" }, sweep.total ? make("progress", { max: sweep.total, value: Math.min(sweep.done, sweep.total), "aria-label": "Tasks done" }) : null,
      make("span", { class: sweep.state === "running" ? "busy number" : "number" }, counts)),
    sweep.axes.length ? make("ul", { class: "facts" }, ...sweep.axes.map((axis) => make("li", {}, axis))) : null,
    ...(alone ? sweep.errors.map((text) => make("p", { class: "no small" }, `failed: ${text}`)) : []),
    sweep.state === "unfinished" || sweep.state === "failed" ? make("p", { class: "soft small" }, "The same command goes on where it was; what is done is kept.") : null);
}

function one(main, address, signal) {
  const head = make("div", {}, empty("Looking…"));
  const results = make("div", { class: "stack" });
  main.append(make("p", {}, make("a", { href: "#sweeps" }, "← All sweeps")), head, results);
  let drawn = null;
  watch(address, signal, async (sweep) => {
    if (!sweep.axes) { head.replaceChildren(sorry("There is no such sweep.")); return; }
    head.replaceChildren(card(sweep, true));
    if (!sweep.results || sweep.state === "running" || sweep.when === drawn) return;
    drawn = sweep.when;
    if (!results.children.length) results.replaceChildren(make("p", { class: "busy soft" }, "Drawing"));
    try {
      results.replaceChildren(...shown(await ask(`${address}/results`, { signal }), address, sweep, signal));
    } catch (error) {
      if (!signal.aborted) results.replaceChildren(sorry(error.message));
    }
  }, (text) => head.replaceChildren(sorry(text)));
}

function shown(found, address, sweep, signal) {
  const figures = found.figures.map((figure, k) => make("section", { class: "card" },
    make("header", {}, make("h2", {}, figure.title)),
    make("figure", { class: "drawn scroll", tabindex: "0", role: "group", "aria-label": figure.title }, picture(`${address}/${k}`, found.version, figure.title, signal)),
    figure.exponents.length ? exponents(figure) : null));
  const measures = found.measures.map(([name, ...values]) => [name, ...values.map((value) => short(value, 4))]);
  return [
    make("div", { class: "figures" }, ...figures),
    make("section", { class: "card" }, make("header", {}, make("h2", {}, "What was measured"),
      sweep.report ? make("span", { class: "note" }, make("a", { href: `${address}/report.html`, target: "_blank", rel: "noopener" }, "The report in a new tab")) : ""),
      table(["measure", "#least", "#middle", "#largest", "#missing"], measures, "Measures")),
  ];
}

function exponents(figure) {
  const several = figure.exponents.some((one) => one.where);
  const predicted = figure.exponents.some((one) => one.predicted);
  const left = figure.exponents.some((one) => one.left_out.length);
  const columns = [several && "where", figure.factor ? "#factor" : "#exponent", "#95 % interval", predicted && "#predicted", left && "left out"].filter(Boolean);
  const three = (value) => (typeof value === "number" ? value.toFixed(3) : value);
  const rows = figure.exponents.map((one) => [
    ...(several ? [one.where] : []), three(one.value), typeof one.low === "number" ? `[${three(one.low)}, ${three(one.high)}]` : "",
    ...(predicted ? [one.predicted] : []), ...(left ? [one.left_out.map((x) => short(x, 4)).join(", ")] : [])]);
  return table(columns, rows, `Exponents of ${figure.title}`);
}

// A figure as an image, in which nothing can run; another one for the dark.
function picture(address, version, title, signal) {
  const image = make("img", { alt: title, decoding: "async" });
  const choose = () => { image.src = `${address}-${isDark() ? "dark" : "light"}.svg?${version}`; };
  addEventListener("themechange", choose, { signal });
  choose();
  return image;
}
