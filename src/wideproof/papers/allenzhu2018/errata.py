"""Misprints and gaps of Allen-Zhu et al. (2018) that change a number."""

from __future__ import annotations

from wideproof.papers.errata import Erratum

ERRATA: tuple[Erratum, ...] = ()
