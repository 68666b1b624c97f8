"""Words of tables: what stands for a missing value, what may be shown, and many complaints in one sentence."""

import difflib
from collections.abc import Callable, Iterable, Sequence

from wideproof.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "<na>", "#n/a", "nat"})
MOST_SHOWN = 5


def plain(text: object) -> str:
    r"""Return text in which control characters, which a terminal would obey, are written as escapes.

    >>> plain("a\x1b[31mb"), plain("größe")
    ('a\\x1b[31mb', 'größe')
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def shown(field: object) -> str:
    r"""Return the beginning of a field on one line, for a message.

    >>> shown("two\nlines"), len(shown("x" * 41))
    ('two lines', 40)
    """
    return plain(" ".join(str(field).split()))[:40]


def listed(parts: Sequence[str], most: int = MOST_SHOWN) -> str:
    """Return `a, b and c`, or the first of many and how many more there are.

    >>> listed(["a", "b", "c"]), listed(list("abcdefg"))
    ('a, b and c', 'a, b, c, d, e and 2 more')
    """
    if len(parts) > most:
        return f"{', '.join(parts[:most])} and {len(parts) - most} more"
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else "none"


def meant(word: object, there: Iterable[str], part: Callable[[str], str] = str) -> str:
    """Return a hint, after a blank, if a word that was not found is like one that is there; `part` is compared.

    >>> meant("prise", ["size", "price"]), meant("Size", ["size", "price"]), meant("q", ["size"]), meant("12", ["1"])
    (" (did you mean 'price'?)", " (did you mean 'size'?)", '', '')
    """
    asked = part(str(word)).casefold()
    if not any(c.isalpha() for c in asked):
        return ""
    folded = {part(one).casefold(): one for one in reversed(list(there))}
    found = difflib.get_close_matches(asked, folded, n=1, cutoff=0.7)
    return f" (did you mean '{plain(folded[found[0]])}'?)" if found else ""


def counted(number: int, word: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


def complain(source: str, problems: Sequence[str]) -> None:
    """Raise all problems of one source as one sentence; do nothing if there are none.

    >>> complain("t.csv", ["line 2 is long: cut it", "line 3 is short: fill it"])
    Traceback (most recent call last):
    wideproof.errors.InputError: t.csv has 2 problems: (1) line 2 is long: cut it; (2) line 3 is short: fill it
    """
    if not problems:
        return
    if len(problems) == 1:
        raise InputError(f"{source}, {problems[0]}")
    listing = "; ".join(f"({k}) {problem}" for k, problem in enumerate(problems[:MOST_SHOWN], start=1))
    more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
    raise InputError(f"{source} has {len(problems)} problems: {listing}{more}")
