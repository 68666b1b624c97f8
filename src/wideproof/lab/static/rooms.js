// The other rooms: each is a function of the element to fill and of the rest of the address; it returns how to leave.
const empty = (main, text) => { const p = document.createElement("p"); p.className = "empty"; p.textContent = text; main.append(p); };

export const rooms = {
  proofs: (main) => empty(main, "Proofs"),
  papers: (main) => empty(main, "Papers"),
  sweeps: (main) => empty(main, "Sweeps"),
};
