"""One quick laboratory a paper, shared by all tests of the paper: what one of them measures, the others have."""

from functools import cache
from typing import Any

from wideproof.papers.statement import laboratory


@cache
def quick(paper: str) -> Any:
    return laboratory(paper)
