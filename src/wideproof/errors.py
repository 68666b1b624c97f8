"""The one exception for misuse: what was asked, what came, what to do, in one sentence."""


class InputError(ValueError):
    """Bad input from a person or a file; its message is a sentence that can be shown as it is.

    >>> raise InputError("digits holds the classes 0..9, got 12: choose two of them with `classes`")
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: digits holds the classes 0..9, got 12: choose two of them with `classes`
    """
