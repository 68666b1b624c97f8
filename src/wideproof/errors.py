"""Exceptions whose message is a sentence for people: what was asked, what came, what to do."""


class InputError(ValueError):
    """Invalid input from a user or a file; its message is a sentence that can be shown unchanged."""


class JobError(RuntimeError):
    """A job over several processes that cannot go on; its message is a sentence that can be shown as it is."""


class MachineError(RuntimeError):
    """A compiled program that disagrees with NumPy; its message is a sentence that can be shown as it is."""
