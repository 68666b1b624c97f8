// Draw every formula of the page; one that cannot be drawn stays readable as TeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".math")) {
    katex.render(element.textContent, element, { displayMode: element.tagName === "DIV", throwOnError: false, strict: false });
  }
});
