"""The routing table paper's worked example, its parameters, and the skew of the load under hashing alone (figure 7)."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.mixed import sweeps
from evidence.papers.mixed.follow import TUPLES_PER_KEY, Case
from evidence.papers.page import Report, Sizing
from unskew.grouping import create
from unskew.grouping.papers.table_schemes import Llfd, MinTable
from unskew.grouping.table import KeyRecords
from unskew.grouping.table.assignment import plan_migration


def figure_4(_settings: Sizing) -> Report:
    """The worked example: two workers, absolute balance."""
    # 7, 4 and 5 are on d1, 2, 1 and 1 on d2; the routing table has entries for those of 5 and 2.
    cost, home = np.array([7.0, 4, 5, 2, 1, 1]), np.array([0, 0, 1, 0, 1, 1], np.int32)
    current = np.array([0, 0, 0, 1, 1, 1], np.int32)
    keys = KeyRecords(cost, cost, current, home, np.ones(6, np.int64), 2)
    rows = []
    for scheme, moves, entries in ((Llfd(2), "7 → d2, 1 → d1", 4), (MinTable(2), None, 2)):
        assignment = scheme.assign(keys, keys.limit(0.0))
        destination = np.empty(6, np.int32)
        destination[assignment.record] = assignment.worker
        plan = plan_migration(np.arange(6, dtype=np.uint64), keys, destination)
        moved = zip(cost[plan["moved_keys"]], plan["moved_to"] + 1, strict=True)
        rows += [
            (scheme.name, "loads after", "10, 10", ", ".join(f"{load:g}" for load in assignment.loads())),
            (scheme.name, "entries of the routing table", entries, assignment.table()),
            (scheme.name, "moves, by cost", moves, ", ".join(f"{c:g} → d{d}" for c, d in moved)),
        ]
    columns = ("algorithm", "what", "paper", "ours")
    note = (
        "Which keys the table has at first isn't in our text: 5 and 2 are one choice that gives what it says of both."
    )
    return Report("Mixed, figure 4: the worked example (loads 16 and 4, θmax = 0)", columns, rows, [note])


def table_2(settings: Sizing) -> Report:
    """What the experiments are run with."""
    case = sweeps.base(settings)
    lost = "our text of the paper has lost the exponents, and which values are the defaults"
    derived = "from figure 18: MINMIG's table converges to about 9350 = K·(N_D − 1)/N_D, so K = 10⁴ and N_D = 15"
    rows = [
        ("K, key domain", "5·10³ … 10⁶", case.workload.keys, derived),
        ("z, skewness", "0 … 0.85 … 1", case.workload.z, None),
        ("f, fluctuation rate", "0 … 1 … 2", case.workload.f, None),
        ("θmax, imbalance tolerance", "0 … 0.08 … 1", case.options["theta_max"], None),
        ("β, migration selection factor", "1 … 1.5 … 2", case.options["beta"], None),
        ("r, for the degree of discretisation R = 2^r", "0 … 8", "none; 0 to 8 in figure 11", None),
        ("w, window in intervals", "1, 5, 10, 15, 20", "1 and 5", "the figures show both"),
        ("N_D, workers", "1, 5, 10, 15, 20 … 40", case.workers, derived),
        ("Amax, routing table size", "0 … 3·10ˣ …", case.options["table_max"], f"{lost}; x = 3 fits K"),
        ("tuples per interval", None, TUPLES_PER_KEY * case.workload.keys, "the paper doesn't say; 100 a key"),
    ]
    columns = ("parameter", "paper: range, default in the middle", "ours", "why")
    return Report("Mixed, Table 2: parameters", columns, rows)


def figure_7(settings: Sizing) -> Report:
    """The workers' loads in ascending order, by workers and by keys; averages over hash functions."""
    base, hashes = sweeps.base(settings), settings.of(50, least=3)
    workers = {n: _loads(base.at(workers=n), hashes) for n in (5, 10, 20, 30, 40)}
    keys = {n: _loads(base.at(keys=n), hashes) for n in (5_000, 10_000, 100_000, 1_000_000)}
    forty = {n: _loads(base.at(workers=40, keys=n), hashes) for n in (100_000, 1_000_000)}
    points = [
        *((n, base.workload.keys, load) for n, load in workers.items()),
        *((base.workers, n, load) for n, load in keys.items()),
        *((40, n, load) for n, load in forty.items()),
    ]
    said = {40: ("2.5, K not said", "a")}  # W → what the paper says, and why ours differs
    rows = []
    for w, k, load in points:
        paper, why = said.get(w, (None, None))
        rows.append((w, k, 100 * (load[-1] - 1), paper, load[-1] / load[0], why))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for panel, what, series in zip(panels, ("workers", "keys"), (workers, keys), strict=True):
            for value, load in series.items():
                panel.plot(load, 100 * np.arange(1, len(load) + 1) / len(load), marker=".", label=f"{value:,} {what}")
            panel.set(xlabel="load / mean load", ylabel="workers, %")
            panel.legend()

    return Report(
        "Mixed, figure 7: skewness under hashing",
        ("workers", "keys", "θ, %, ours", "paper: max / min load", "ours", "why they differ"),
        rows,
        [
            "a: with a K between our last two it is the paper's. Ours: one interval, averaged over hash functions. The",
            "paper: 50 intervals, between which keys swap loads, and consistent hashing.",
        ],
        draw,
    )


def _loads(case: Case, hashes: int) -> NDArray[np.float64]:
    """The load of the lightest to the heaviest worker, over the mean load: float64[W]."""
    total = np.zeros(case.workers)
    for seed in range(hashes):
        home = create("KEY", case.workers, seed=case.workload.seed + seed).route(np.arange(case.workload.keys))
        total += np.sort(np.bincount(home, next(case.workload.intervals(home, case.workers)), case.workers))
    return total / total.mean()
