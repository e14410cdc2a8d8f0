"""Plans from bounded reports beside plans from exact ones: the size of an interval's reports, and the plans' quality.

    python -m evidence.speed.reports [GROUPING ...] [--keys K] [--z Z] [--workers W ...] [--reported N ...]
        [--intervals I]

Zipf keys, 100 tuples a key and interval; between two intervals one worker gets the frequencies of heavier keys (f = 1),
as in the routing table paper. The table has medians over all intervals but the first:

* the bytes of all workers' reports, and the ms of CPU time to plan;
* the overload, as a share of the whole load, before the interval's plan and after it;
* the entries of the routing table, the keys that move, and their share of the window's true state.
"""

import argparse
import time
from collections import deque
from itertools import islice

import numpy as np
from rich.table import Table

from evidence.papers.mixed.follow import Workload
from evidence.tables import print_table
from unskew.grouping import create, encode_keys
from unskew.grouping.keys import Keys, keys_from_hashes
from unskew.grouping.state import pack_values
from unskew.grouping.table.assignment import max_overload, sum_by_position

COLUMNS = ("reports, kB", "before, %", "after, %", "table", "keys moved", "state moved, %", "plan, ms")


def reports_of(router, keys, tuples, owner):
    """Worker → its monitor's report of an interval."""
    reports = {}
    for worker in range(router.workers):
        own = np.flatnonzero((owner == worker) & (tuples > 0))
        monitor = router.monitor()
        codes = np.repeat(np.arange(len(own), dtype=np.int32), tuples[own].astype(np.int64))
        monitor.observe(Keys(codes, keys.hashes[own], keys.distinct[:0]), None)
        reports[worker] = monitor.report()
    return reports


def follow(name, workers, reported, arguments):
    """The figures of each interval."""
    router = create(name, workers, report_keys=reported)
    controller = router.controller()
    keys = keys_from_hashes(np.sort(encode_keys(np.arange(arguments.keys)).hashes))
    window = deque(maxlen=router.window)
    for tuples in islice(
        Workload(arguments.keys, arguments.z).intervals(router.home(keys.hashes), workers), arguments.intervals + 1
    ):
        window.append(tuples)
        owner = router.owners(keys)
        reports = reports_of(router, keys, tuples, owner)
        began = time.thread_time()
        plan = controller.plan(reports)
        planned = time.thread_time() - began
        if plan is not None:
            router.adopt(plan)
        now = router.owners(keys)
        before, after = (100 * max_overload(sum_by_position(at, tuples, workers)) for at in (owner, now))
        sizes = sum(window)
        yield (
            sum(len(pack_values("", report)) for report in reports.values()) / 1000,
            before,
            after,
            len(router.table_keys),
            np.count_nonzero(now != owner),
            100 * sizes[now != owner].sum() / sizes.sum(),
            1000 * planned,
        )


def main():
    """Print a row for each grouping, W and size of reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groupings", nargs="*", metavar="GROUPING", default=["MIXED", "MINTABLE"])
    parser.add_argument("--keys", type=int, default=472_000)
    parser.add_argument("--z", type=float, default=0.85)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--reported", type=int, nargs="+", default=[30_000], help="keys named, beside all")
    parser.add_argument("--intervals", type=int, default=8)
    arguments = parser.parse_args()
    shown = Table("grouping", "W", "keys named", *COLUMNS, title=f"{arguments.keys:,} keys, z = {arguments.z}")
    for name in arguments.groupings:
        for workers in arguments.workers:
            for reported in (None, *arguments.reported):
                rows = list(follow(name, workers, reported, arguments))[1:]
                figures = (f"{value:,.1f}" for value in np.median(rows, axis=0))
                shown.add_row(name, str(workers), "all" if reported is None else f"{reported:,}", *figures)
    print_table(shown)


if __name__ == "__main__":
    main()
