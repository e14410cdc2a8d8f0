"""Do the papers' figures and ours agree? Counts over the tables' own rows, by a tolerance for each kind of measure."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evidence.papers.difference import absolute, relative
from evidence.papers.page import Report, anchor

#: Headings.
_DIFFERENCE, _WHY = "difference", "why they differ"

#: A row's cells as the CSV has them: heading → text, empty where there is none.
Row = Mapping[str, str]


class Pair(NamedTuple):
    """The paper's figure and ours, as text, with their row, and all rows of the table."""

    paper: str
    ours: str
    row: Row
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of measure: when a figure of ours agrees with the paper's.

    ``name``: Its word in the summary. ``means``: When two figures agree, and why that much may lie between them.
    ``agrees``: Whether they agree. ``differ``: How the difference of two numbers is said; None: words are compared.
    """

    name: str
    means: str
    agrees: Callable[[Pair], bool]
    differ: Callable[[float, float], str] | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """Which cells of a table are the paper's and ours.

    ``kind``: When they agree. ``paper``: Heading of the paper's figure. Where a row has none, the paper doesn't give
    one. ``ours``: Heading of our figure; by default that of the next column. ``missing``: Why the paper doesn't give a
    figure, where it doesn't: a key of ``MISSING``.
    """

    kind: Kind
    paper: str = "paper"
    ours: str | None = None
    missing: str = "picture"


def numbers(text: str) -> list[float]:
    """All numbers of a text: 10,690 is one."""
    return [float(number.replace(",", "")) for number in re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text)]


def _says(pair: Pair) -> bool:
    return pair.row.get(_WHY, "").startswith(("agree", "as there", "within our spread"))


def _printed(pair: Pair) -> bool:
    """Equal texts, or equal numbers to the digits that the paper prints."""
    paper, ours = numbers(pair.paper), numbers(pair.ours)
    if pair.paper == pair.ours or len(paper) != 1 or len(ours) != 1:
        return pair.paper == pair.ours
    digits = len(pair.paper.partition(".")[2])
    return abs(ours[0] - paper[0]) <= 0.5 * 10**-digits * (1 + 1e-9)


def _near(pair: Pair) -> bool:
    paper, ours = numbers(pair.paper), numbers(pair.ours)
    few = pair.row[_WHY] == "agree: a few messages"  # as pkg/table-2 finds
    return few or (bool(paper and ours) and abs(ours[0] - paper[0]) <= 0.1 * abs(paper[0]) + 1e-12)


def _speed_up(pair: Pair) -> bool:
    if not numbers(pair.ours):
        return False
    paper, ours = numbers(pair.paper)[0], numbers(pair.ours)[0]
    return ours >= paper - 0.06 if "≥" in pair.paper else abs(ours - paper) <= 0.06 + 1e-9


def _readme(pair: Pair) -> bool:
    """DKG's words, by STD_DEV and DIST_COST."""
    std_dev, cost = float(pair.ours), float(pair.row["DIST_COST"])
    word = pair.paper.partition(";")[0]
    if word == "optimal":
        return std_dev <= 0.1
    if word == "poor":
        return std_dev > 1 and cost == 1
    point = next(iter(pair.row.values()))
    (key,) = (row for row in pair.rows if row["grouping"] == "KEY" and next(iter(row.values())) == point)
    return max(std_dev, float(pair.row["last minute"])) <= float(key["ours: STD_DEV"]) / 3


def _course(pair: Pair) -> bool:
    """POSG's figure by the paper's, or beside round robin's by the paper's word."""
    posg = Pair(pair.row["round robin"], pair.ours, pair.row, pair.rows)
    if numbers(pair.paper) or pair.paper == "the same":
        return _near(pair if numbers(pair.paper) else posg)
    ours, robin = float(pair.ours), float(pair.row["round robin"])
    return ours > robin if pair.paper == "degrades" else ours < robin


PRINTED = Kind(
    "printed digits",
    "Ours, rounded as the paper prints it, is the same: no chance is in these figures.",
    _printed,
    relative,
)
NEAR = Kind(
    "10 %",
    "Ours is within 10 % of the paper's: streams and hash functions are drawn, and the paper's draws aren't known. Two "
    "imbalances below ten messages agree too, because loads are whole messages.",
    _near,
    relative,
)
SPEED_UP = Kind(
    "0.06",
    "A speed-up is within 0.06 of the paper's, a third of its mean gain (1.19). 10 % of the ratio would be more than "
    "half of that gain. Of several variants of ours, 'as written' counts: the setting of the paper's text.",
    _speed_up,
    absolute,
)
SPREAD = Kind("spread", "The paper has one run: it is within the least and the greatest of our runs.", _says, absolute)
WORDS = Kind(
    "words",
    "The paper has a word, a range or a picture. Our figures meet the condition that the table or its remarks state. "
    "In PKG's Figure 4: less than an order of magnitude apart.",
    _says,
)
README = Kind(
    "README's word",
    "Optimal: STD_DEV is at most 0.1 %. Poor: above 1 %, and no key is split. Good: since the start and in the last "
    "minute at most a third of KEY's, the nearest to a figure that the word allows.",
    _readme,
)
COURSE = Kind(
    "course",
    "A number is within 10 % of the paper's. By its words, POSG is within 10 % of round robin (the same), above it "
    "(degrades), or below it (lower, recovers).",
    _course,
    relative,
)
CLAIM = Kind(
    "claim",
    "The paper's sentence holds of our figures: each has its condition beside it in `evidence/papers/mixed/`, with at "
    "most 10 % of slack for chance.",
    _says,
)

#: Why the paper gives no figure.
MISSING = {
    "picture": "the paper prints no number there. It has a picture, or a sentence about other points; what it says of "
    "Mixed's pictures is in the table of its claims",
    "ours": "the point or the scheme is ours, for comparison",
}

_SPEED_UPS = ("figure-4", "figure-5", "figure-6", "figure-7", "figure-8", "figure-9", "items", "tolerance", "window")
_CURVES = ("8", "9", "10", "11", "12", "17", "18", "19", "13", "14", "15", "16")

#: Experiment → the cells that are compared. Parameters (mixed/table-2) are no result.
COMPARED: dict[str, Compared] = {
    "pkg/table-2": Compared(NEAR),
    **dict.fromkeys(("pkg/figure-4", "pkg/threshold", "pkg/figure-6", "pkg/probing"), Compared(WORDS)),
    "pkg/figure-7": Compared(NEAR, "paper: breaks at z"),
    "pkg/figure-9": Compared(WORDS, "paper: least d"),
    "pkg/decision-tree": Compared(NEAR, missing="ours"),
    "pkg/heavy-hitters": Compared(NEAR, "paper: terms", missing="ours"),
    "mixed/figure-4": Compared(PRINTED),
    "mixed/figure-7": Compared(NEAR, "paper: max / min load"),
    **{f"mixed/figure-{number}": Compared(CLAIM) for number in _CURVES},
    **dict.fromkeys(("mixed/figures-20-21", "mixed/claims", "mixed/live-claims"), Compared(CLAIM)),
    "posg/figure-11": Compared(COURSE, ours="POSG"),
    "posg/figure-12": Compared(SPEED_UP, "paper: S_L"),
    "posg/theorem-4.3": Compared(PRINTED),
    "posg/default": Compared(SPEED_UP, "paper: S_L"),
    "posg/start": Compared(WORDS, missing="ours"),
    **{f"posg/{name}": Compared(SPEED_UP) for name in _SPEED_UPS},
    "posg/figure-10": Compared(WORDS, missing="ours"),
    "dpa/table-1": Compared(SPREAD, "paper: with LB"),  # our workloads are made to have the paper's S without it
    "dpa/figure-3": Compared(WORDS, "paper, after the first"),
    **dict.fromkeys(("dkg/skew", "dkg/workers", "dkg/half-skew"), Compared(README, "paper (README)", missing="ours")),
}

AGREE, REASON, NO_REASON, NONE = "agree", "differ, with a reason", "differ, without one", "no figure in the paper"
VERDICTS = (AGREE, REASON, NO_REASON, NONE)
#: The heading of the summary.
TITLE = "Do they agree?"


def compare_cells(name: str, report: Report) -> list[tuple[str, Pair | None]]:
    """Each compared cell of an experiment's table: its verdict, and the two figures, if the paper has one."""
    if (compared := COMPARED.get(name)) is None:
        return []
    table = [["" if cell is None else str(cell) for cell in row] for row in report.rows]
    rows = [dict(zip(report.columns, cells, strict=True)) for cells in table]
    if compared.paper not in report.columns:
        return [(NONE, None)] * len(rows)
    at = report.columns.index(compared.paper)
    found: list[tuple[str, Pair | None]] = []
    for cells, row in zip(table, rows, strict=True):
        if not cells[at]:
            found.append((NONE, None))
            continue
        # By position, because a table may have two columns of one heading.
        ours = cells[at + 1] if compared.ours is None else row[compared.ours]
        pair = Pair(cells[at], ours, row, rows)
        differs = REASON if row.get(_WHY) and not _says(pair) else NO_REASON
        found.append((AGREE if compared.kind.agrees(pair) else differs, pair))
    return found


def make_difference_column(name: str, report: Report) -> tuple[int, list[str]] | None:
    """The column, with its heading, and where it stands: numbers after our figures, words before the reasons.

    A row has a number where both figures are one, "none" or "yes" for words, a dash where the paper has nothing.
    Returns tuple or None: None: the paper says nothing about any row.
    """
    cells = compare_cells(name, report)
    if all(verdict == NONE for verdict, _ in cells):
        return None
    compared = COMPARED[name]
    if compared.kind.differ is None and _WHY in report.columns:
        position = report.columns.index(_WHY)
    elif compared.ours is None:
        position = report.columns.index(compared.paper) + 2
    else:
        position = report.columns.index(compared.ours) + 1
    return position, [_DIFFERENCE, *(_differ(compared.kind, *cell) for cell in cells)]


def _differ(kind: Kind, verdict: str, pair: Pair | None) -> str:
    if pair is None:
        return "–"
    say = kind.differ
    if say is not None and (paper := numbers(pair.paper)) and (ours := numbers(pair.ours)) and _single(pair.paper):
        return say(paper[0], ours[0])
    return "none" if verdict == AGREE else "yes"


def _single(text: str) -> bool:
    """Whether a text is one figure, as "1.19" or "≈ 1.2" are; "10, 10" and "RUN from 10,690" aren't."""
    return re.fullmatch(r"[≈≥ ]*-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( \(.*\))?", text) is not None and ", " not in text


def summary(reports: Mapping[str, Report], papers: Mapping[str, str]) -> str:
    """The section that answers whether the papers and the reproduction agree, as Markdown.

    ``reports``: By the experiments' names. ``papers`` gives each paper's title by its name.
    """
    found = {name: Counter(cell[0] for cell in compare_cells(name, report)) for name, report in reports.items()}
    of_papers, of_tables = [_head("paper", "tables")], [_head("table", "measure")]
    for paper, title in papers.items():
        its = {name: counts for name, counts in found.items() if name.partition("/")[0] == paper}
        if its:
            of_papers.append(_line(title, sum(its.values(), Counter()), str(len(its))))
        for name, counts in its.items():
            kind = COMPARED[name].kind.name if counts.total() > counts[NONE] else "–"
            table = reports[name].title
            of_tables.append(_line(f"[{table}](#{anchor(table)})", counts, kind))
    total = sum(found.values(), Counter[str]())
    of_papers.append(_line("all", total, str(len(found))))
    kinds = dict.fromkeys(COMPARED[name].kind for name, counts in found.items() if counts.total() > counts[NONE])
    missing: Counter[str] = Counter()
    for name, counts in found.items():
        if counts[NONE]:
            missing[COMPARED[name].missing] += counts[NONE]
    lines = [
        f"## {TITLE}\n",
        _sentence(total) + "\n",
        *of_papers,
        "\nTwo cells agree, by the measure of their table:\n",
        *(f"- **{kind.name}**: {kind.means}" for kind in kinds),
        "\nWhere a paper has no figure:\n",
        *(f"- {count} cells: {MISSING[why]}." for why, count in missing.items()),
        "",
        *of_tables,
        "",
    ]
    return "\n".join(lines)


def _head(first: str, last: str) -> str:
    rule = f"| --- |{' ---: |' * (1 + len(VERDICTS))} --- |"
    return f"| {first} | figures in the paper | {' | '.join(VERDICTS)} | {last} |\n{rule}"


def _line(first: str, counts: Counter[str], last: str) -> str:
    given = counts.total() - counts[NONE]
    columns = (str(count or "–") for count in (given, *(counts[verdict] for verdict in VERDICTS)))
    return f"| {first} | {' | '.join(columns)} | {last} |"


def _sentence(total: Counter[str]) -> str:
    without = f"; {total[NO_REASON]} differ without one" if total[NO_REASON] else ""
    return (
        f"Of {total.total() - total[NONE]} cells for which a paper says something, {total[AGREE]} agree and "
        f"{total[REASON]} differ for the reason in their row{without}. "
        "A cell is a figure, a word or a claim of the paper beside ours."
    )
