"""A curve drawn in the terminal, in Braille dots on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wideproof.answers import Answer

COLOUR = {Answer.HOLDS: "green", Answer.FAILS: "red", Answer.UNDECIDED: "yellow"}

# Bit of the Braille pattern for the dot at (row 0..3, column 0..1) of a character cell.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def curve(
    steps: Sequence[int] | np.ndarray,
    values: Sequence[float] | np.ndarray,
    *,
    width: int = 64,
    height: int = 12,
) -> str:
    """Plot positive values against steps as lines of text; other values are left out.

    Parameters
    ----------
    steps
        The steps, in ascending order.
    values
        One value for each step.
    width
        Number of columns of the plot.
    height
        Number of lines of the plot.

    Returns
    -------
    str
        The lines.

    Examples
    --------
    >>> print(curve([0, 1, 2, 3], [1, 0.1, 0.01, 0.001], width=8, height=3))
        1 ┤⠑⠢⡀
          │  ⠈⠑⢄⡀
    0.001 ┤     ⠈⠢⢄
           0      3
    """
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    good = np.isfinite(values) & (values > 0)
    steps, logs = steps[good], np.log10(values[good])
    if not len(steps):
        return "(no positive values to draw)"
    width = max(8, width)
    top, bottom = float(logs.max()), float(logs.min())
    if top == bottom:
        top, bottom = top + 0.5, bottom - 0.5
    cells = np.zeros((height, width), int)
    columns, rows = 2 * width - 1, 4 * height - 1
    span = max(steps[-1] - steps[0], 1)
    across = np.arange(columns + 1)
    heights = np.interp(across / columns * span + steps[0], steps, logs)
    down = np.rint((top - heights) / (top - bottom) * rows).astype(int)
    for x, y, y_next in zip(across, down, [*down[1:], down[-1]], strict=True):
        low, high = sorted((y, y_next))
        for row in range(low, max(high, low + 1)) if low != high else (y,):
            cells[row // 4, x // 2] |= _DOTS[row % 4][x % 2]
    labels = [f"{10**top:.2g}", *[""] * (height - 2), f"{10**bottom:.2g}"] if height > 1 else [f"{10**top:.2g}"]
    if height > 4:
        labels[height // 2] = f"{10 ** (top - (top - bottom) * (height // 2) / (height - 1)):.2g}"
    margin = max(map(len, labels))
    lines = [
        f"{label:>{margin}} {'┤' if label else '│'}{''.join(chr(0x2800 + c) if c else ' ' for c in row)}".rstrip()
        for label, row in zip(labels, cells, strict=True)
    ]
    last = f"{math.floor(steps[-1])}"
    lines.append(f"{'':>{margin}}  {math.floor(steps[0])}{last:>{width - len(str(math.floor(steps[0])))}}")
    return "\n".join(lines)
