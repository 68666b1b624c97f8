"""How numbers are written where they are more than digits and a point: `$1,000.50`, `3 %`, `1.234,5 €`.

Nothing is guessed: a mark between thousands is taken for one only where it cannot be a decimal mark.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from wideproof.data.exact import NUMBER

SIGNS = "%‰$€£¥₹"
_UNIT = rf"[{SIGNS}]|(?:US|CA|AU)\$|USD|EUR|GBP|CHF|JPY"
_BLANK = r"[ \u00a0\u202f]?"
_PARTS = re.compile(rf"([+-]?)({_UNIT})?{_BLANK}([+-]?[0-9.,][^A-Z{SIGNS}]*?)(?:{_BLANK}({_UNIT}))?")
_GROUPS = ",. '\u2019\u00a0\u202f"
_GROUPED = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:([{_GROUPS}])[0-9]{{3}})(?:\1[0-9]{{3}})*(?:(?!\1)([.,])[0-9]*)?")
COMMA = re.compile(r"[+-]?(?:[0-9]+,[0-9]+|,[0-9]+)(?:[eE][+-]?[0-9]+)?")
THOUSANDS = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:([{_GROUPS}])[0-9]{{3}})(?:\1[0-9]{{3}})*(?:[.,][0-9]+)?")
_SURE = " '\u2019\u00a0\u202f"  # no decimal mark looks like these


@dataclass(frozen=True)
class Written:
    """How the numbers of one column are written: what stands before or after them, and the marks inside.

    >>> money = Written.like("$1,234.5")
    >>> money, money.plain("$-1,000.50"), money.plain("7"), money.plain("1,00")
    (Written(before='$', after='', group=',', decimal='.'), '-1000.50', '7', None)
    >>> Written.like("1234.5 %").plain("3%"), Written.like("1234.5 %").plain("3")
    ('3', None)
    """

    before: str = ""
    after: str = ""
    group: str = ""
    decimal: str = "."

    @property
    def sample(self) -> str:
        """A number that is written so, from which `like` finds the rest."""
        return f"{self.before}1{self.group}234{self.decimal}5{' ' if self.after else ''}{self.after}"

    @classmethod
    def like(cls, sample: str) -> "Written":
        """Return what `sample` was made of."""
        before, body, after = _parts(sample) or ("", sample, "")
        return cls(before, after, body[1:-5], body[-2])

    def plain(self, field: str) -> str | None:
        """Return a field as a plain decimal number; None if it is not written so.

        Money may lack its sign; a percentage may not, since 0.03 and 3 % would be confused.
        """
        found = _parts(field)
        if found is None:
            return None
        before, body, after = found
        same = (before, after) == (self.before, self.after)
        if not same and (before or after or self.of_a_hundred):
            return None
        if self.group and self.group in body:
            grouped = _GROUPED.fullmatch(body)
            if not grouped or grouped[1] != self.group:
                return None
            body = body.replace(self.group, "")
        if self.decimal == ",":
            if "." in body:
                return None
            body = body.replace(",", ".")
        return body if NUMBER.fullmatch(body) else None

    @property
    def of_a_hundred(self) -> bool:
        """Whether these are per cent or per mille."""
        return any(one in "%‰" for one in self.before + self.after)


def is_written(field: str) -> bool:
    """Say whether a field may be a number with a sign or marks, as `$5`, `3 %` or `1,234`.

    >>> [is_written(field) for field in ("$1,000.50", "3 %", "EUR 5", "1,5", "key12", "12 %x", "$", "1,,2")]
    [True, True, True, True, False, False, False, False]
    """
    found = _parts(field)
    return found is not None and any(form.fullmatch(found[1]) for form in (NUMBER, COMMA, _GROUPED))


def without_sign(field: str) -> str:
    """Return a number without the sign of money or per cent that stands beside it; anything else as it is.

    >>> without_sign("3,5 %"), without_sign("about 5")
    ('3,5', 'about 5')
    """
    found = _parts(field)
    return field if found is None else found[1]


def how_written(fields: Iterable[str], decimal: str) -> Written | str | None:
    """Return how all fields are written, the first that is unclear, or None if not all of them are numbers.

    A mark stands between thousands if another one follows it, if it occurs twice, or if it is a blank or an apostrophe.

    Parameters
    ----------
    fields
        The fields of a column, different ones, none of them missing.
    decimal
        The decimal mark of the table.

    Examples
    --------
    >>> how_written(["$1,000.50", "$1,234"], ".")
    Written(before='$', after='', group=',', decimal='.')
    >>> how_written(["1,234", "5"], "."), how_written(["3 %", "4"], "."), how_written(["3 %", "few"], ".")
    ('1,234', '4', None)
    """
    fields = list(fields)
    found = [_parts(one) if is_written(one) else None for one in fields]
    if not fields or not all(found):
        return None
    signs = Counter((one[0], one[2]) for one in found if one and (one[0] or one[2]))
    before, after = signs.most_common(1)[0][0] if signs else ("", "")
    group, mark = "", decimal
    for one in found:
        grouped = _GROUPED.fullmatch(one[1]) if one else None
        if grouped and one and (grouped[2] or grouped[1] in _SURE or one[1].count(grouped[1]) > 1):
            group = grouped[1]
            mark = grouped[2] or {",": ".", ".": ","}.get(group, mark)
            if grouped[2]:
                break
    how = Written(before, after, group, mark)
    money = before + after and not how.of_a_hundred
    for field, one in zip(fields, found, strict=True):
        unsigned = money and one is not None and not (one[0] or one[2])
        if unsigned or how.plain(field) is None:
            return field
    return how


def _parts(field: str) -> tuple[str, str, str] | None:
    """Return what stands before a number, the number with its sign and marks, and what stands after it."""
    found = _PARTS.fullmatch(field)
    if not found:
        return None
    sign, before, body, after = found.groups(default="")
    if (before and after) or (sign and body[:1] in "+-"):
        return None
    return before, sign + body, after
