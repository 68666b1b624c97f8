// The bench in a notebook, as anywidget asks for it: one element with its own styles, and messages through the kernel.
import { Bench } from "./bench.js";
import { colouredBy, forgetColours } from "./draw.js";
import { parse } from "./protocol.js";

// Dark where the notebook is: JupyterLab, VS Code, marimo and Colab say so on their page, others leave it to the system.
function dark() {
  const { body, documentElement: html } = document, light = body.dataset.jpThemeLight;
  if (light !== undefined) return light === "false";
  const says = (name) => body.classList.contains(name) || html.classList.contains(name);
  if (says("vscode-dark") || says("vscode-high-contrast") || says("dark") || html.getAttribute("theme") === "dark") return true;
  if (says("vscode-light") || says("light") || html.getAttribute("theme") === "light") return false;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const hosts = []; // the newest last: colours are the same in all of them

function render({ model, el }) {
  const host = document.createElement("div"), inner = document.createElement("div"), root = host.attachShadow({ mode: "open" });
  const styles = new CSSStyleSheet(), view = Math.random().toString(36).slice(2);
  styles.replaceSync(STYLES);
  root.adoptedStyleSheets = [styles];
  inner.className = "page";
  root.append(inner);
  host.dataset.lmSuppressShortcuts = "true"; // what is typed here is no command to the notebook
  for (const kind of ["keydown", "keypress", "keyup"]) host.addEventListener(kind, (event) => event.stopPropagation());

  const bench = new Bench({ send: (command) => model.send(command) });
  const hear = (_, buffers) => {
    if (!buffers?.length) return;
    const { buffer, byteOffset, byteLength } = buffers[0];
    const message = parse(buffer.slice(byteOffset, byteOffset + byteLength)); // a copy: arrays need their alignment
    if (message.kind === "hello" && message.view !== view) return;
    bench.hear(message);
  };
  const theme = () => { host.dataset.theme = dark() ? "dark" : "light"; forgetColours(); bench.themed(); };
  const watch = new MutationObserver(theme), system = matchMedia("(prefers-color-scheme: dark)");
  for (const element of [document.documentElement, document.body]) watch.observe(element, { attributes: true, attributeFilter: ["class", "theme", "data-theme", "data-jp-theme-light"] });
  system.addEventListener("change", theme);
  const seen = new ResizeObserver(() => bench.shown()); // a notebook may show it later than it makes it
  seen.observe(inner);

  inner.append(bench.element);
  el.append(host);
  hosts.push(host);
  colouredBy(host);
  theme();
  model.on("msg:custom", hear);
  model.send({ do: "hello", view });
  return () => {
    model.off("msg:custom", hear);
    model.send({ do: "leave", view });
    watch.disconnect();
    seen.disconnect();
    system.removeEventListener("change", theme);
    hosts.splice(hosts.indexOf(host), 1);
    if (hosts.length) colouredBy(hosts.at(-1));
    bench.remove();
    host.remove();
  };
}

export default { render };
