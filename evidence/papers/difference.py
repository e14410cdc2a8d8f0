"""The column of a page's tables that says by how much our figure differs from the paper's."""

import re
from collections.abc import Callable

from evidence.papers.agreement import (
    AGREE,
    COMPARED,
    COURSE,
    NEAR,
    NONE,
    PRINTED,
    SPEED_UP,
    SPREAD,
    Kind,
    Pair,
    compare_cells,
    numbers,
)
from evidence.papers.page import Report

#: The column's heading.
HEADING = "difference"
_REASON = "why they differ"
_TIMES = 2.0  # from this ratio on, a difference is said as a ratio


def relative(paper: float, ours: float) -> str:
    """In percent of the paper's figure, or as a ratio if one is at least twice the other.

    >>> relative(0.02, 0.0236), relative(10, 9.99), relative(0.0078, 0.00132), relative(0, 0), relative(0, 1)
    ('+18 %', '0 %', '÷ 5.91', '0 %', 'from 0')
    """
    if not paper:
        return "from 0" if ours else "0 %"
    ratio = ours / paper
    if ratio >= _TIMES:
        return f"× {ratio:.3g}"
    if 0 < ratio <= 1 / _TIMES:
        return f"÷ {1 / ratio:.3g}"
    return _signed(f"{100 * (ratio - 1):+.0f}", " %")


def absolute(paper: float, ours: float) -> str:
    """In the figure's own unit.

    >>> absolute(1.19, 1.01), absolute(0.2, 0.2)
    ('−0.18', '0.00')
    """
    return _signed(f"{ours - paper:+.2f}", "")


def _signed(number: str, unit: str) -> str:
    """A number with a minus of its own width, and without a sign if it is 0."""
    return (number.replace("-", "−") if float(number) else number.lstrip("+-")) + unit


#: How a difference is said, by the kind of measure. Other kinds compare words.
_OF_NUMBERS: dict[Kind, Callable[[float, float], str]] = {
    NEAR: relative,
    PRINTED: relative,
    COURSE: relative,
    SPEED_UP: absolute,
    SPREAD: absolute,
}


def make_difference_column(name: str, report: Report) -> tuple[int, list[str]] | None:
    """The column, with its heading, and where it stands: numbers after our figures, words before the reasons.

    A row has a number where both figures are one, "none" or "yes" for words, a dash where the paper has nothing.
    Returns tuple or None: None: the paper says nothing about any row.
    """
    cells = compare_cells(name, report)
    if all(verdict == NONE for verdict, _ in cells):
        return None
    compared = COMPARED[name]
    if compared.kind not in _OF_NUMBERS and _REASON in report.columns:
        position = report.columns.index(_REASON)
    elif compared.ours is None:
        position = report.columns.index(compared.paper) + 2
    else:
        position = report.columns.index(compared.ours) + 1
    return position, [HEADING, *(_differ(compared.kind, *cell) for cell in cells)]


def _differ(kind: Kind, verdict: str, pair: Pair | None) -> str:
    if pair is None:
        return "–"
    say = _OF_NUMBERS.get(kind)
    if say is not None and (paper := numbers(pair.paper)) and (ours := numbers(pair.ours)) and _single(pair.paper):
        return say(paper[0], ours[0])
    return "none" if verdict == AGREE else "yes"


def _single(text: str) -> bool:
    """Whether a text is one figure, as "1.19" or "≈ 1.2" are; "10, 10" and "RUN from 10,690" aren't."""
    return re.fullmatch(r"[≈≥ ]*-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( \(.*\))?", text) is not None and ", " not in text
