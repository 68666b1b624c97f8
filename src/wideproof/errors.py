"""Exceptions whose message is a sentence for people: what was asked, what came, what to do."""


class InputError(ValueError):
    """Bad input from a person or a file; its message is a sentence that can be shown as it is.

    >>> raise InputError("digits holds the classes 0..9, got 12: choose two of them with `classes`")
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: digits holds the classes 0..9, got 12: choose two of them with `classes`
    """


class JobError(RuntimeError):
    """A job over several processes that cannot go on; its message is a sentence that can be shown as it is."""


class MachineError(RuntimeError):
    """A compiled program that disagrees with NumPy; its message is a sentence that can be shown as it is."""
