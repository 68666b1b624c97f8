// The other rooms: each is a function of the element to fill and of the rest of the address; it returns how to leave.
import { papers } from "./papers.js";
import { proofs } from "./proofs.js";
import { sweeps } from "./sweeps.js";

export const rooms = { proofs, papers, sweeps };
