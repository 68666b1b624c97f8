"""What this machine has for a process: cores and memory."""

from __future__ import annotations

import os


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Return the bytes of memory of this machine."""
    import psutil

    return psutil.virtual_memory().total


def free_memory() -> int:
    """Return the bytes of memory that can be had without swapping."""
    import psutil

    return psutil.virtual_memory().available
