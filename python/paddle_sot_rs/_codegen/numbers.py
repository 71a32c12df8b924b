"""What guards and generated code compute of numbers that differ between calls, where no builtin of Python does."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def text_length(number: int) -> int:
    """How many characters show a whole number."""
    return len(str(number))


@functools.cache
def plain(function: Any) -> Any:
    """A function of NumPy that answers with Python's number, and raises where it would warn: guards ask it, too."""

    def call(*args: Any) -> Any:
        with np.errstate(all="raise"):
            return function(*args).item()

    return call
