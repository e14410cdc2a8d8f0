"""When a sentence of the routing table paper (Mixed) holds of our figures, which stand as text in the row beside it.

The conditions read the row, so a page's count of claims that hold comes from the table itself.
"""

import re
from collections.abc import Callable
from itertools import pairwise

#: Chance and the clock may move a figure by as much: of a step between two neighbours, and of a whole comparison.
STEP, SLACK = 0.05, 0.1


def _values(text: str) -> list[float]:
    """The figures of "8.77 at 0.02, 8.28 at 0.05": those before "at", in order."""
    return [value for value, _ in _points(text)]


def _points(text: str) -> list[tuple[float, float]]:
    number = r"(-?[\d.]+(?:e[+-]?\d+)?)"
    return [(float(value), float(at)) for value, at in re.findall(rf"{number} at {number}", text)]


def _spans(text: str) -> list[tuple[float, float]]:
    """The least and greatest ratios of "0.4 to 0.8 times as much; 0.2 to 0.5 times"."""
    return [(float(low), float(high)) for low, high in re.findall(r"([\d.]+) to ([\d.]+) times", text)]


def _decimals(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"\d+\.\d+", text)]


def _percents(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"(-?\d+)%", text)]


def _rates(text: str) -> list[float]:
    """The figures of "(0.02, 0.08): 77,257, 78,052 tuples/s"."""
    return [float(value.replace(",", "")) for value in re.findall(r"\d[\d,]*\d|\d", text.partition("): ")[2])]


def _falls(values: list[float]) -> bool:
    """From each to the next it rises by ``STEP`` at most, and on the whole it falls."""
    steps = all(after <= before * (1 + STEP) for before, after in pairwise(values))
    return steps and values[-1] < values[0]


def _rises(values: list[float]) -> bool:
    return _falls(values[::-1])


def _never(_ours: str) -> bool:
    """Our rows say in words that it isn't so."""
    return False


#: The paper's sentence, without the name of a stream → the condition on our text.
CONDITIONS: dict[str, Callable[[str], bool]] = {
    "MIXED plans a little longer than MINTABLE": lambda t: _spans(t)[0][0] >= 1 and _spans(t)[0][1] <= 2,
    "its migration is much lower, with w = 1 and 5": lambda t: all(high < 1 - SLACK for _, high in _spans(t)),
    "with many workers it jumps to MINTABLE's, when the table needed exceeds Amax": _never,
    "excellent plans whatever N_D": lambda t: max(_values(t)) <= 8.1,  # θmax = 8 %
    "plans are made faster with larger θmax; within 1 s even for absolute balance": (
        lambda t: _falls(_values(t)) and max(_values(t)) < 1000
    ),
    "smaller θmax: more migration": lambda t: _falls(_values(t)),
    "MINTABLE migrates three times as much as MIXED": (
        lambda t: all(3 * (1 - SLACK) <= bound <= 3 * (1 + SLACK) for span in _spans(t) for bound in span)
    ),
    "larger windows shrink migration": lambda t: _spans(t)[0][1] < 1,
    "loads end within θmax": lambda t: all(theta <= 100 * limit + 0.01 for theta, limit in _points(t)),
    "MIXED spends more time than MINTABLE, from 5,000 to 1,000,000 keys": lambda t: _spans(t)[0][0] >= 1,
    "it migrates less": lambda t: _spans(t)[0][1] < 1,
    "planning is ten times as fast as with the original keys (0.6 s, 6 s)": (
        lambda t: 10 * (1 - SLACK) <= float(t.partition(" times with")[0]) <= 10 * (1 + SLACK)
    ),
    "load estimates are off by 1 % at most, R from 1 to 256": (
        lambda t: max(float(value) for value in re.findall(r"([\d.]+) %", t)) <= 1
    ),
    "READJ plans slower by a large margin, and slower with larger f": (
        lambda t: _spans(t.replace("times as long", "times"))[0][0] > 2 and _rises(_values(t))
    ),
    "brute force is a poor option": lambda t: _spans(t)[0][0] > 2,
    "READJ's migration grows faster with f than MIXED's": lambda t: all(low > 1 for low, _ in _spans(t)),
    "MIXED performs similarly to MIXED_BF": lambda t: _spans(t)[0][0] >= 2 / 3 and _spans(t)[0][1] <= 3 / 2,
    "below the Amax that balance needs MIXED migrates as MINTABLE does, above it much less": (
        lambda t: _falls(_values(t)) and _values(t)[-1] < (1 - SLACK) * _values(t)[0]
    ),
    "tables converge to about 9350 = K·(N_D − 1)/N_D entries, faster with smaller θmax": (
        lambda t: min(float(n) for n in re.findall(r"(\d+) with", t)) >= (1 - SLACK) * 9350
    ),
    "the larger w, the less MIXED migrates; always less than MINTABLE": (
        lambda t: _falls(_values(t)) and _spans(t)[0][1] < 1
    ),
    "larger β: a smaller table, stable from 1.5 on": lambda t: _falls(_values(t)) and _stable(_points(t)),
    "larger β: more migration": lambda t: _rises(_values(t)),
    "Ideal is the best always": lambda t: max(_percents(t)) <= 100 * (1 + SLACK),
    "Mixed is very close to it, whatever f": lambda t: _percents(t)[0] >= 100 * (1 - SLACK),
    "Readj works well only with small f": lambda t: _falls(_percents(t)),
    "Mixed is best with the strictest θmax": lambda t: _rates(t)[0] >= (1 - SLACK) * max(_rates(t)),
    "about twice Storm's and Readj's with small θmax": (
        lambda t: all(float(ratio) >= 2 * (1 - SLACK) for ratio in re.findall(r"[\d.]+", t))
    ),
    "MinTable is slower, because it moves more": lambda t: max(_percents(t)) < 100,
    "10 % more throughput than PKG, 40 % less latency": (
        lambda t: all(ours >= (1 - SLACK) * paper for ours, paper in zip(_percents(t), (10, 40), strict=True))
    ),
    "Mixed is balanced over the new worker much sooner than Readj (5 minutes)": (
        lambda t: _decimals(t)[0] > (1 + SLACK) * _decimals(t)[1]
    ),
    "without balancing throughput is poor, Mixed's is best at any θmax": lambda t: min(_percents(t)) > 110,
}


def _stable(points: list[tuple[float, float]]) -> bool:
    """From β = 1.5 on no table differs by more than ``SLACK`` from the first there."""
    late = [entries for entries, beta in points if beta >= 1.5]
    return all(abs(entries - late[0]) <= SLACK * late[0] for entries in late)


def holds(paper: str, ours: str) -> bool:
    """Whether the paper's sentence holds of our text. It doesn't if a run was too small to have its figures.

    Raises KeyError: The sentence has no condition.
    """
    condition = CONDITIONS[re.sub(r"^(Social|Stock): ", "", paper)]
    try:
        return condition(ours)
    except (IndexError, ValueError):  # "nan" instead of a number
        return False
