// What the rooms are made of: elements, requests, badges and tables. Text goes in as text, never as markup.
export function make(tag, fields = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// Ask the lab; what goes wrong is an Error whose message is a sentence.
export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The lab does not answer: is it still running?");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error ?? `The lab answered with ${answer.status}.`);
  return found;
}

export const place = (...names) => names.map(encodeURIComponent).join("/");

const LOOKS = { proved: "yes", holds: "yes", done: "yes", "not proved": "maybe", undecided: "maybe", unfinished: "maybe", claimed: "maybe", malformed: "no", fails: "no", failed: "no", impossible: "no", running: "" };
const SAID = { impossible: "proved impossible", claimed: "only claimed" };
export const badge = (outcome) => make("span", { class: `badge ${LOOKS[outcome] ?? "soft"}` }, SAID[outcome] ?? outcome);

// A table whose columns that begin with "#" are numbers.
export function table(columns, rows, label) {
  const side = columns.map((name) => (name.startsWith("#") ? "number value" : ""));
  const head = make("tr", {}, ...columns.map((name, k) => make("th", { scope: "col", class: side[k] }, name.replace(/^#/, ""))));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, k) => make("td", { class: side[k] }, cell ?? ""))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

export const sorry = (text) => make("p", { class: "error", role: "alert" }, text);
export const empty = (text) => make("p", { class: "empty" }, text);

export function short(value, digits = 6) {
  if (typeof value !== "number") return String(value ?? "");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(digits - 3).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

export const bytes = (size) => (size >= 1e6 ? `${(size / 1e6).toFixed(1)} MB` : `${Math.max(1, Math.round(size / 1e3))} kB`);

export function when(seconds) {
  const time = new Date(1000 * seconds);
  return make("time", { datetime: time.toISOString(), title: time.toLocaleString() }, time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }));
}

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
