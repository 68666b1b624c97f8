// Draw every formula of the page; one that cannot be drawn stays readable as TeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".math")) {
    katex.render(element.textContent, element, { displayMode: element.tagName === "DIV", throwOnError: false, strict: false });
    // A comma after a formula stays on its line: it joins the formula's last piece, which is never broken.
    const next = element.nextSibling, last = [...element.querySelectorAll(".katex-base")].pop();
    if (last && next && next.nodeType === Node.TEXT_NODE && /^[,.;:)]/.test(next.data)) {
      last.append(next.data[0]);
      next.data = next.data.slice(1);
    }
  }
});
