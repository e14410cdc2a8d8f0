"""The column of a page's tables that says by how much our figure differs from the paper's."""

import re
from collections.abc import Callable

from evidence.papers.agreement import (
    AGREE,
    COURSE,
    NEAR,
    NONE,
    PRINTED,
    SPEED_UP,
    SPREAD,
    Kind,
    Table,
    compared_cells,
    numbers,
)

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


def differences(table: Table) -> list[str] | None:
    """For each row: a number where both figures are one, "none" or "yes" for words, a dash where the paper has nothing.

    Returns list of str or None: None: the paper says nothing about any row.
    """
    found: list[str] = []
    for compared, verdict, pair in compared_cells(table):
        say = _OF_NUMBERS.get(compared.kind)
        if pair is None:
            found.append("–")
        elif (
            say is not None and (paper := numbers(pair.paper)) and (ours := numbers(pair.ours)) and _single(pair.paper)
        ):
            found.append(say(paper[0], ours[0]))
        else:
            found.append("none" if verdict == AGREE else "yes")
    return found if any(verdict != NONE for _, verdict, _ in compared_cells(table)) else None


def _single(text: str) -> bool:
    """Whether a text is one figure, as "1.19" or "≈ 1.2" are; "10, 10" and "RUN from 10,690" aren't."""
    return re.fullmatch(r"[≈≥ ]*-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( \(.*\))?", text) is not None and ", " not in text


def with_differences(section: str, table: Table) -> str:
    """A section of a page, whose table has the column of differences.

    Numbers stand after our figures, which they are about. Words stand before the reasons.

    A section that has the column already gets it anew. One whose table isn't on the page stays as it is.
    """
    said = differences(table)
    lines = section.split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith("| ")), None)
    if first is None or said is None:
        return section
    rows = [_cells(line) for line in lines[first : first + 2 + len(table.rows)]]
    if HEADING in rows[0]:
        old = rows[0].index(HEADING)
        rows = [row[:old] + row[old + 1 :] for row in rows]
    if len(rows[0]) != len(table.columns):
        return section
    at = _position(table)
    new = [[*row[:at], cell, *row[at:]] for row, cell in zip(rows, [HEADING, "---", *said], strict=True)]
    lines[first : first + len(rows)] = [f"| {' | '.join(row)} |" for row in new]
    return "\n".join(lines)


def _position(table: Table) -> int:
    """Where the column stands."""
    compared = next(each for each, verdict, _ in compared_cells(table) if verdict != NONE)
    if compared.kind not in _OF_NUMBERS and _REASON in table.columns:
        return table.columns.index(_REASON)
    return 1 + (
        table.columns.index(compared.paper) + 1 if compared.ours is None else table.columns.index(compared.ours)
    )


def _cells(line: str) -> list[str]:
    """The cells of a row in Markdown; a pipe in a cell has a backslash before it."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
