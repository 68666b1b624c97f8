"""The three answers that a question can have: it holds, it fails, or it could not be decided."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Answer(StrEnum):
    """Yes, no, or undecided; only what holds is true.

    Examples
    --------
    >>> Answer.of(3 > 2), Answer.of(None)
    (<Answer.HOLDS: 'holds'>, <Answer.UNDECIDED: 'undecided'>)
    >>> bool(Answer.HOLDS), bool(Answer.FAILS), bool(Answer.UNDECIDED)
    (True, False, False)
    >>> [answer.exit_code for answer in Answer]
    [0, 1, 2]
    """

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"

    def __bool__(self) -> bool:
        return self is Answer.HOLDS

    @property
    def exit_code(self) -> int:
        """What a command ends with that was asked this: 0 yes, 1 no, 2 could not tell."""
        return {Answer.HOLDS: 0, Answer.FAILS: 1, Answer.UNDECIDED: 2}[self]

    @property
    def truth(self) -> bool | None:
        """`True`, `False`, or `None` where it is undecided, as JSON has it."""
        return {Answer.HOLDS: True, Answer.FAILS: False, Answer.UNDECIDED: None}[self]

    @classmethod
    def of(cls, truth: bool | None) -> Answer:
        """Return the answer for a truth value.

        Parameters
        ----------
        truth
            `True`, `False`, or `None` for undecided.

        Returns
        -------
        Answer
            The answer.
        """
        return cls.UNDECIDED if truth is None else cls.HOLDS if truth else cls.FAILS

    @classmethod
    def joined(cls, answers: Iterable[Answer]) -> Answer:
        """Return whether all answers hold: it fails if one fails, otherwise it is undecided if one is undecided.

        Parameters
        ----------
        answers
            The answers.

        Returns
        -------
        Answer
            The joint answer.

        Examples
        --------
        >>> Answer.joined([Answer.HOLDS, Answer.UNDECIDED])
        <Answer.UNDECIDED: 'undecided'>
        >>> Answer.joined([Answer.FAILS, Answer.UNDECIDED])
        <Answer.FAILS: 'fails'>
        """
        found = set(answers)
        return next((answer for answer in (cls.FAILS, cls.UNDECIDED) if answer in found), cls.HOLDS)
