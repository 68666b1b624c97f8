"""What notebooks show of a value: a table, its text, a line or a matrix as a picture; texts escaped, no scripts."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_STYLE = "border-collapse:collapse;margin:.4em 0;font-variant-numeric:tabular-nums"
_CELL = "text-align:left;padding:.1em .9em .1em 0;vertical-align:top;border:none"
PIXELS = 64  # of a matrix's side; a larger one is averaged over squares


def card(title: str, facts: Mapping[str, Any], picture: str = "") -> str:
    """Return a title, a table of facts and a picture as a piece of HTML.

    >>> card("<b>", {"rows": 3})[:50]
    '<div style="max-width:60em"><strong>&lt;b&gt;</str'
    """
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:normal;opacity:.7">{_text(name)}</th>'
        f'<td style="{_CELL}">{_text(value)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        f'<div style="max-width:60em"><strong>{_text(title)}</strong>'
        f'<table style="{_STYLE}"><tbody>{rows}</tbody></table>{picture}</div>'
    )


def grid(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table with a head as a piece of HTML.

    >>> "<th" in grid(["width"], [[64]]) and "64" in grid(["width"], [[64]])
    True
    """
    head = "".join(f'<th style="{_CELL}">{_text(one)}</th>' for one in heads)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{_text(one)}</td>' for one in row) + "</tr>" for row in rows)
    return f'<table style="{_STYLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def words(text: str) -> str:
    """Return a text as a piece of HTML: lines stay lines, and columns stay columns.

    >>> words("a < b")[-14:]
    'a &lt; b</pre>'
    """
    return f'<pre style="max-width:100ch;white-space:pre-wrap;margin:.4em 0">{_text(text)}</pre>'


class Told:
    """A result of which notebooks show the text that `print` shows."""

    def _repr_html_(self) -> str:
        return words(str(self))


def line(values: Sequence[float] | np.ndarray, title: str) -> str:
    """Return positive values as a line on a logarithmic scale; nothing where fewer than two can be drawn.

    >>> line([1.0, 0.1, 0.01], "loss").count("<polyline")
    1
    >>> line([1.0], "loss")
    ''
    """
    values = np.asarray(values, float)
    good = np.isfinite(values) & (values > 0)
    if good.sum() < 2:
        return ""
    heights = np.log10(values[good])
    places = np.flatnonzero(good) / max(len(values) - 1, 1)
    span = float(np.ptp(heights)) or 1.0
    points = " ".join(
        f"{4 + 232 * x:.1f},{4 + 52 * (heights.max() - y) / span:.1f}" for x, y in zip(places, heights, strict=True)
    )
    return (
        f'<svg role="img" aria-label="{_text(title)}" viewBox="0 0 240 60" width="240" height="60">'
        f'<polyline fill="none" stroke="#3a7ca5" stroke-width="1.6" points="{points}"/></svg>'
    )


def heat(matrix: np.ndarray, title: str) -> str:
    """Return a matrix as a picture: white at 0, blue above it, orange below, the largest entry darkest.

    >>> heat(np.eye(2), "identity")[:41]
    '<img alt="identity" style="image-renderin'
    """
    small = _averaged(_averaged(np.asarray(matrix, float)).T).T
    largest = float(np.abs(small).max(initial=0.0)) or 1.0
    share = np.nan_to_num(np.clip(small / largest, -1, 1))[..., None]
    above, below = np.array([22, 78, 121]), np.array([181, 84, 28])
    ink = np.where(share >= 0, above, below)
    pixels = np.rint(255 + (ink - 255) * np.abs(share)).astype(np.uint8)
    coded = base64.b64encode(_png(pixels)).decode()
    return (
        f'<img alt="{_text(title)}" style="image-rendering:pixelated;border:1px solid #8884" '
        f'width="160" height="{max(round(160 * len(small) / small.shape[1]), 1)}" src="data:image/png;base64,{coded}">'
    )


def _averaged(matrix: np.ndarray) -> np.ndarray:
    """Return at most `PIXELS` rows, each the mean of neighbouring ones."""
    edges = np.linspace(0, len(matrix), min(len(matrix), PIXELS) + 1).astype(int)
    return np.add.reduceat(matrix, edges[:-1], axis=0) / np.diff(edges)[:, None]


def _png(pixels: np.ndarray) -> bytes:
    """Return an RGB picture as a PNG file."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        whole = kind + content
        return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))

    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _text(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:.4g}" if math.isfinite(value) else str(value)
    return html.escape(str(value))
