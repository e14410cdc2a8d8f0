"""Checking a scheme's parameters: what was given, and what is valid."""

import math
from typing import Any

import numpy as np


def integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int if it is one in [least, most].

    Raises
    ------
    ValueError
        It isn't; the message names the parameter, the value and the valid ones.

    """
    fits = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        raise ValueError(
            f"{name} is {value!r}; valid: an integer of at least {least}" + (f", at most {most}" if most else "")
        )
    return int(value)


def number(name: str, value: Any, least: float, most: float = math.inf, *, above: bool = False) -> float:
    """``value`` as a float if it is finite and in [least, most], or (least, most] if ``above``.

    Raises
    ------
    ValueError
        It isn't; the message names the parameter, the value and the valid ones.

    """
    fits = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not least <= value <= most or (above and value == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        raise ValueError(
            f"{name} is {value!r}; valid: a number {bound}" + (f", at most {most:g}" if most < math.inf else "")
        )
    return float(value)


def milliseconds(name: str, seconds: Any, *, least: int = 0) -> int:
    """A duration in seconds as whole milliseconds, at least ``least`` of them.

    Raises
    ------
    ValueError
        It isn't one; the message names the parameter, the value and the valid ones.

    """
    return round(1000 * number(name, seconds, least / 1000))
