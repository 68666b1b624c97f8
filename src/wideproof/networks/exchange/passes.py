"""What is simplified first: constants, operators that do nothing, activations that are written out in parts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from wideproof.networks.exchange.folding import FOLDED, LAYOUT, fold
from wideproof.networks.exchange.program import Op, Program

CLOSE = 1e-6
"""How far the root of 1/2 in a GELU that is written out may be from the exact one: files hold it in float32."""

LONGEST_PRODUCT = 16


def simplify(program: Program) -> Program:
    """Return the program with its constants folded, idle operators removed and activations recognised."""
    done = replace(program, constants=dict(program.constants), names=dict(program.names), notes=list(program.notes))
    done.keep_live()
    _fold_constants(done)
    _remove_idle(done)
    done.keep_live()
    _recognise(done)
    done.keep_live()
    return done


def _fold_constants(program: Program) -> None:
    rest = []
    for op in program.ops:
        read = [name for name in op.inputs if name]
        if op.kind not in FOLDED or not read or not all(name in program.constants for name in read):
            rest.append(op)
            continue
        program.constants[op.output] = fold(op, program.constants)
        if op.kind in LAYOUT:
            program.names[op.output] = program.names.get(read[0], read[0])
    program.ops = rest


def _remove_idle(program: Program) -> None:
    same: dict[str, str] = {}
    rest = []
    for op in program.ops:
        inputs = tuple(same.get(name, name) for name in op.inputs)
        if _idle(op, program):
            same[op.output] = inputs[0]
        else:
            rest.append(replace(op, inputs=inputs))
    program.ops, program.output = rest, same.get(program.output, program.output)


def _idle(op: Op, program: Program) -> bool:
    if op.kind == "Dropout":
        training = op.inputs[2] if len(op.inputs) > 2 else ""
        return not training or program.scalar(training) == 0
    return op.kind == "Identity" or (op.kind == "Cast" and op.options.get("to") in (1, 11))


class _Finder:
    """Looks for activations that are written out in smaller operators."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.makers = {op.output: op for op in program.ops}
        self.uses: Counter[str] = program.uses()

    def one_plus(self, name: str) -> str | None:
        """Return what 1 is added to."""
        op = self.makers.get(name)
        if op is None or op.kind != "Add":
            return None
        for one, other in (op.inputs, op.inputs[::-1]):
            if self.program.scalar(one) == 1:
                return other
        return None

    def under(self, name: str | None, kind: str) -> str | None:
        """Return what an operator of this kind was applied to."""
        op = self.makers.get(name or "")
        return op.inputs[0] if op is not None and op.kind == kind else None

    def softplus(self, name: str) -> str | None:
        """Return `x` where the value is its softplus: one operator, `log(1 + exp(x))`, or as PyTorch writes it."""
        inner = self.under(name, "Log")
        return (
            self.under(name, "Softplus")
            or self.under(inner and self.one_plus(inner), "Exp")
            or self.cut_softplus(self.makers.get(name))
        )

    def cut_softplus(self, op: Op | None) -> str | None:
        """Return `x` where the value is softplus, and `x` itself above 20: the same up to 1e-10."""
        if op is None or op.kind != "Where":
            return None
        test, x, other = op.inputs
        above = self.makers.get(test)
        known = above is not None and above.kind == "Greater" and above.inputs[0] == x
        threshold = self.program.scalar(above.inputs[1]) if above is not None and known else None
        return x if threshold is not None and threshold >= 20 and self.under(other, "Softplus") == x else None

    def product(self, op: Op) -> tuple[float, list[str]]:
        """Return the number and the values whose product an operator is, through products that only it reads."""
        number, factors, rest = 1.0, [], [(op.output, True)]
        for _ in range(LONGEST_PRODUCT):
            if not rest:
                return number, factors
            name, root = rest.pop()
            maker, scalar = self.makers.get(name), self.program.scalar(name)
            if scalar is not None:
                number *= scalar
            elif maker is None or maker.kind not in ("Mul", "Div") or (self.uses[name] > 1 and not root):
                factors.append(name)
            elif maker.kind == "Mul":
                rest += [(part, False) for part in maker.inputs]
            elif self.program.scalar(maker.inputs[1]):
                number /= self.program.scalar(maker.inputs[1]) or 1.0
                rest.append((maker.inputs[0], False))
            else:
                factors.append(name)
        return 0.0, []

    def gate(self, x: str, g: str) -> tuple[str, float] | None:
        """Return the activation that `x` times `g` is, and the factor in front of it."""
        if self.under(g, "Sigmoid") == x:
            return "Swish", 1.0
        inner = self.under(g, "Tanh")
        if inner and self.softplus(inner) == x:
            return "Mish", 1.0
        argument = self.under(self.one_plus(g), "Erf")
        maker = self.makers.get(argument or "")
        if maker is not None:
            number, factors = self.product(maker)
            if factors == [x] and abs(number - math.sqrt(0.5)) < CLOSE:
                return "Gelu", 2.0
        return None

    def match(self, op: Op) -> tuple[str, str, float] | None:
        """Return activation, argument and factor of what an operator ends, or nothing."""
        if op.kind in ("Log", "Where"):
            x = self.softplus(op.output)
            return ("Softplus", x, 1.0) if x else None
        if op.kind == "Div" and self.under(self.one_plus(op.inputs[1]), "Abs") == op.inputs[0]:
            return "Softsign", op.inputs[0], 1.0
        if op.kind not in ("Mul", "Div"):
            return None
        number, factors = self.product(op)
        for x, g in (factors, factors[::-1]) if len(factors) == 2 else ():
            found = self.gate(x, g)
            if found:
                return found[0], x, number * found[1]
        return None


def _recognise(program: Program) -> None:
    finder, at = _Finder(program), len(program.ops) - 1
    while at >= 0:
        op = program.ops[at]
        found = finder.match(op)
        if found:
            kind, x, factor = found
            new = [Op(kind, (x,), op.output, op.name)]
            if factor != 1:
                inner, number = f"{op.output}/{kind}", f"{op.output}/factor"
                program.constants[number] = np.asarray(factor, np.float64)
                new = [Op(kind, (x,), inner, op.name), Op("Mul", (inner, number), op.output, op.name)]
            after = len(program.ops) - 1 - at
            program.ops[at : at + 1] = new
            program.keep_live()
            finder, at = _Finder(program), len(program.ops) - after - len(new)
        at -= 1
