"""The routing table paper's worked example, and the parameters of its experiments."""

import numpy as np

from reproduction.mixed import sweeps
from reproduction.mixed.workload import TUPLES_PER_KEY
from reproduction.page import Report, Sizing
from unskew.grouping.table import Llfd, MinTable, Records
from unskew.grouping.table.migration import migrate


def figure_4(_settings: Sizing) -> Report:
    """The worked example: two workers, absolute balance."""
    # 7, 4 and 5 are on d1, 2, 1 and 1 on d2; the routing table has entries for those of 5 and 2.
    cost, home = np.array([7.0, 4, 5, 2, 1, 1]), np.array([0, 0, 1, 0, 1, 1], np.int32)
    current = np.array([0, 0, 0, 1, 1, 1], np.int32)
    keys = Records(cost, cost, current, home, np.ones(6, np.int64), 2)
    rows = []
    for scheme, moves, entries in ((Llfd(2), "7 → d2, 1 → d1", 4), (MinTable(2), None, 2)):
        placement = scheme.place(keys, keys.limit(0.0))
        destination = np.empty(6, np.int32)
        destination[placement.record] = placement.worker
        plan = migrate(np.arange(6, dtype=np.uint64), keys, destination)
        moved = zip(cost[plan.moved_keys], plan.moved_to + 1, strict=True)
        rows += [
            (scheme.name, "loads after", "10, 10", ", ".join(f"{load:g}" for load in placement.loads())),
            (scheme.name, "entries of the routing table", entries, placement.table()),
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
