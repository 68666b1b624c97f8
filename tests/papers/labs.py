"""One quick laboratory a paper, shared by all tests of the paper: what one of them measures, the others have."""

from functools import cache
from typing import Any

from wideproof.papers.statement import laboratory


def plant(lab: Any, value: Any, measure: Any, *args: Any) -> None:
    """Have a laboratory believe that it has measured this value already."""
    lab._kept[measure.key(lab, *args)] = value


@cache
def quick(paper: str) -> Any:
    return laboratory(paper)
