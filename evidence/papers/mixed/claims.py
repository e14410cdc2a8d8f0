"""What the routing table paper says of its figures, and what comes out here."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from evidence.papers.mixed import sweeps
from evidence.papers.mixed.compact import over_degrees
from evidence.papers.mixed.follow import Outcome, Point
from evidence.papers.page import Report, Sizing


class Claim(NamedTuple):
    """A statement of the paper that the sweeps can confirm or not."""

    figure: str
    paper: str
    ours: str
    why: str | None = None


def claims(settings: Sizing) -> Report:
    """One row for each."""
    rows = [
        *_workers(sweeps.over_workers(settings)),
        *_theta_max(sweeps.over_theta_max(settings)),
        *_keys(sweeps.over_keys(settings)),
        *_compact(settings),
        *_fluctuation(sweeps.over_f(settings)),
        *_appendices(settings),
    ]
    return Report(
        "Mixed: what the paper says, and what comes out", ("figure", "paper", "ours", "why they differ"), rows
    )


Outcomes = dict[Any, Outcome]


def _of(points: Iterable[Point], scheme: str, window: int | None = 1) -> Outcomes:
    """The scheme's outcome at each value; of any window if it is None."""
    return {point.value: point.outcome for point in points if point.scheme == scheme and window in (None, point.window)}


_TOO_SHORT = "too short to compare"  # in a small run plans take less than the clock of CPU time shows


def _times(of: Outcomes, to: Outcomes, what: str) -> str:
    """The ratio of ``of``'s number to ``to``'s, from the least to the greatest over all values, as text."""
    ratios = [getattr(of[value], what) / getattr(to[value], what) for value in of if getattr(to[value], what) > 0]
    if not ratios:
        return _TOO_SHORT
    return f"{min(ratios):.1f} to {max(ratios):.1f} times"


def _each(of: Outcomes, what: str) -> str:
    """The number at each value, as text."""
    return ", ".join(f"{getattr(outcome, what):.3g} at {value:g}" for value, outcome in of.items())


def _most(of: Outcomes, what: str) -> str:
    return f"{max(getattr(outcome, what) for outcome in of.values()):.3g}"


def _workers(points: list[Point]) -> list[Claim]:
    mixed, table = _of(points, "MIXED"), _of(points, "MINTABLE")
    mixed_5, table_5 = _of(points, "MIXED", 5), _of(points, "MINTABLE", 5)
    return [
        Claim(
            "8a",
            "MIXED plans a little longer than MINTABLE",
            f"{_times(mixed, table, 'milliseconds')} as long; at most {_most(mixed, 'milliseconds')} ms",
        ),
        Claim(
            "8b",
            "its migration is much lower, with w = 1 and 5",
            f"{_times(mixed, table, 'migration')} as much; {_times(mixed_5, table_5, 'migration')} with w = 5",
        ),
        Claim(
            "8b",
            "with many workers it jumps to MINTABLE's, when the table needed exceeds Amax",
            f"no jump: MIXED's tables have {_most(mixed, 'table')} entries at most",
            "far from our Amax, which is a guess; figure 17 shows where it binds",
        ),
        Claim(
            "8",
            "excellent plans whatever N_D",
            f"θ, %: {_each(mixed, 'theta')}",
            "with many workers the heaviest key is above L_max all by itself",
        ),
    ]


def _theta_max(points: list[Point]) -> list[Claim]:
    mixed, table = _of(points, "MIXED"), _of(points, "MINTABLE")
    mixed_5, table_5 = _of(points, "MIXED", 5), _of(points, "MINTABLE", 5)
    return [
        Claim(
            "9a",
            "plans are made faster with larger θmax; within 1 s even for absolute balance",
            f"ms: {_each(mixed, 'milliseconds')}",
            "sorting the keys takes most of it, whatever θmax is",
        ),
        Claim("9b", "smaller θmax: more migration", f"%: {_each(mixed, 'migration')}"),
        Claim(
            "9b",
            "MINTABLE migrates three times as much as MIXED",
            f"{_times(table, mixed, 'migration')}; {_times(table_5, mixed_5, 'migration')} with w = 5",
            "with w = 1 a key's state is its load, and no key is cheap for what it carries; with θmax = 0 γ moves many",
        ),
        Claim("9b", "larger windows shrink migration", f"w = 5: {_times(mixed_5, mixed, 'migration')} that of w = 1"),
        Claim("9", "loads end within θmax", f"θ, %: {_each(mixed, 'theta')}"),
    ]


def _keys(points: list[Point]) -> list[Claim]:
    mixed, table = _of(points, "MIXED"), _of(points, "MINTABLE")
    return [
        Claim(
            "10a",
            "MIXED spends more time than MINTABLE, from 5,000 to 1,000,000 keys",
            f"{_times(mixed, table, 'milliseconds')} as much; ms: {_each(mixed, 'milliseconds')}",
        ),
        Claim("10b", "it migrates less", f"{_times(mixed, table, 'migration')} as much"),
    ]


def _compact(settings: Sizing) -> list[Claim]:
    keys, *compacted = over_degrees(settings)
    coarse = compacted[-1]
    errors = [c.mean_error for c in compacted]
    faster = f"{keys.planning / coarse.planning:.0f} times" if coarse.planning > 0 else _TOO_SHORT
    return [
        Claim(
            "11a",
            "planning is ten times as fast as with the original keys (0.6 s, 6 s)",
            f"{faster} with R = {coarse.degree} ({coarse.planning:.2g} ms, "
            f"{keys.planning:.2g} ms); but grouping takes {coarse.grouping:.2g} ms",
            "the paper leaves grouping out; it costs a sort, and so does planning with the keys. It pays where many "
            "plans are tried",
        ),
        Claim(
            "11b",
            "load estimates are off by 1 % at most, R from 1 to 256",
            f"{min(errors):.2g} to {max(errors):.2g} %; the worst worker's by {coarse.max_error:.2g} %",
            "errors cancel over many keys, and whether 1 % is of the mean or the worst isn't said",
        ),
    ]


def _fluctuation(points: list[Point]) -> list[Claim]:
    mixed, brute, readj = (_of(points, scheme, 5) for scheme in ("MIXED", "MIXED_BF", "READJ"))
    mixed_1, readj_1 = _of(points, "MIXED"), _of(points, "READJ")
    return [
        Claim(
            "12a",
            "READJ plans slower by a large margin, and slower with larger f",
            f"{_times(readj, mixed, 'milliseconds')} as long as MIXED; ms: {_each(readj, 'milliseconds')}",
        ),
        Claim("12a", "brute force is a poor option", f"{_times(brute, mixed, 'milliseconds')} as long as MIXED"),
        Claim(
            "12b",
            "READJ's migration grows faster with f than MIXED's",
            f"w = 5: {_times(readj, mixed, 'migration')} MIXED's; w = 1: {_times(readj_1, mixed_1, 'migration')}",
            "with w = 1 the heavy keys are the ones to move, and with the best σ READJ finds them too",
        ),
        Claim("12b", "MIXED performs similarly to MIXED_BF", f"{_times(mixed, brute, 'migration')} its migration"),
    ]


def _appendices(settings: Sizing) -> list[Claim]:
    bound = _of(sweeps.over_table_max(settings), "MIXED")
    window = sweeps.over_window(settings)
    mixed, table = _of(window, "MIXED", None), _of(window, "MINTABLE", None)
    beta = _of(sweeps.over_beta(settings), "MINMIG", None)
    growth = sweeps.growth(settings)
    adjustments = len(growth[0].outcome.tables)
    tables = ", ".join(f"{point.outcome.tables[-1]} with θmax = {point.value:g}" for point in growth)
    return [
        Claim(
            "17",
            "below the Amax that balance needs MIXED migrates as MINTABLE does, above it much less",
            f"%: {_each(bound, 'migration')}",
        ),
        Claim(
            "18",
            "tables converge to about 9350 = K·(N_D − 1)/N_D entries, faster with smaller θmax",
            f"after {adjustments} adjustments {tables}",
            "they go on growing, slower and slower; how many adjustments the paper makes isn't in our text",
        ),
        Claim(
            "19",
            "the larger w, the less MIXED migrates; always less than MINTABLE",
            f"%: {_each(mixed, 'migration')}; {_times(mixed, table, 'migration')} MINTABLE's",
        ),
        Claim("20", "larger β: a smaller table, stable from 1.5 on", f"entries: {_each(beta, 'table')}"),
        Claim("21", "larger β: more migration", f"%: {_each(beta, 'migration')}"),
    ]
