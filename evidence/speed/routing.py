"""What routing costs, in ns of CPU time a tuple and bytes of state, beside a plain Python loop in the same run.

    python -m evidence.speed.routing [GROUPING ...] [--workers W] [--tuples N] [--batch N] [--repeats N]
    python -m evidence.speed.routing --curves FILE.png [GROUPING ...]

Keys are Zipf (z = 1), drawn in advance, and arrive in batches, as from Spark. *Codes*: encoded and hashed in advance.
*Strings*: plain Arrow strings, so that finding and hashing the distinct keys of each batch is within the time. The
table has the least over the repeats, which go on with the same router, and the state after them. Time passes by 1 s a
batch, and costs are lognormal, for schemes that need these. Schemes with feedback have had it beforehand, after each
batch: so they have a routing table, and POSG schedules by its sketches instead of in turns.

The plain loop is PARTIAL_KEY as a user writes it first: mmh3 twice for each string, a list of loads.
"""

import argparse
import time
from pathlib import Path

import mmh3
import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt

from evidence.tables import make_table, print_table
from unskew.grouping import GROUPINGS, create, encode_keys
from unskew.grouping.keys import Keys
from unskew.grouping.registry import get_colour
from unskew.grouping.streams import zipf

WORKERS = (10, 100, 1000, 10_000)
KEYS = (1000, 10_000, 100_000, 1_000_000)


class Batches:
    """N tuples over K keys, cut into batches, as strings and encoded."""

    def __init__(self, keys, tuples, size):
        drawn = zipf(1.0, keys).take(0, tuples)
        names = pa.array([f"key-{number:07d}" for number in range(keys)])
        costs = np.asarray(np.random.default_rng(0).lognormal(0, 1, tuples))
        cuts = [slice(at, min(at + size, tuples)) for at in range(0, tuples, size)]
        self.tuples = tuples
        self.strings = [names.take(pa.array(drawn[cut])) for cut in cuts]
        self.codes = [encode_keys(strings) for strings in self.strings]
        self.costs = [costs[cut] for cut in cuts]

    def ns(self, router, batches, repeats):
        """Least ns a tuple over the repeats; the router's clock goes on from one to the next."""
        best = float("inf")
        for repeat in range(repeats):
            begun = time.process_time_ns()
            for number, keys in enumerate(batches):
                router.route(keys, times=1000 * (repeat * len(batches) + number), costs=self.costs[number])
            best = min(best, time.process_time_ns() - begun)
        return best / self.tuples


def plain_loop(batches, workers):
    """Ns a tuple of PARTIAL_KEY in plain Python."""
    loads = [0] * workers
    begun = time.process_time_ns()
    for strings in batches.strings:
        for key in strings.to_pylist():
            one, other = mmh3.hash(key, 1, signed=False) % workers, mmh3.hash(key, 2, signed=False) % workers
            loads[one if loads[one] <= loads[other] else other] += 1
    return (time.process_time_ns() - begun) / batches.tuples


def warmed(name, workers):
    """A router whose kernels are compiled."""
    create(name, workers).route(["a", "b"], times=0, costs=1.0)
    return create(name, workers)


def learn(router, batches):
    """Feed the workers' reports back after each batch, once over all batches; schemes without feedback don't change."""
    controller = router.controller()
    if controller is None:
        return
    monitors = [router.monitor() for _ in range(router.workers)]
    for number, keys in enumerate(batches.codes):
        costs = batches.costs[number]
        chosen = router.route(keys, times=1000 * number, costs=costs)
        for worker in np.unique(chosen):
            if monitors[worker] is not None:
                own = chosen == worker
                monitors[worker].observe(Keys(keys.codes[own], keys.hashes, keys.distinct), costs[own])
        reports = {n: report for n, m in enumerate(monitors) if m is not None and (report := m.report()) is not None}
        of_source = router.report()
        loads = np.bincount(chosen, costs, router.workers)
        plan = controller.plan(reports, loads, {} if of_source is None else {0: of_source})
        if plan is not None:
            router.adopt(plan)


def table(names, arguments):
    """Print ns a tuple and bytes of state."""
    small, large = (Batches(keys, arguments.tuples, arguments.batch) for keys in (10_000, 1_000_000))
    title = f"ns a tuple, W = {arguments.workers}, batches of {arguments.batch:,}"
    heads = "grouping", "codes 10k", "strings 10k", "codes 1M", "strings 1M", "state 10k", "state 1M"
    shown = make_table(*heads, title=title)
    for name in names:
        times, sizes = [], []
        for batches in (small, large):
            router = warmed(name, arguments.workers)
            learn(router, batches)
            times += [batches.ns(router, kind, arguments.repeats) for kind in (batches.codes, batches.strings)]
            sizes.append(len(router.save()))
        shown.add_row(name, *(f"{ns:.1f}" for ns in times), *(f"{size:,}" for size in sizes))
    loops = [f"{plain_loop(batches, arguments.workers):.0f}" for batches in (small, large)]
    shown.add_row("plain Python PARTIAL_KEY", "", loops[0], "", loops[1], "", "", end_section=True)
    print_table(shown)


def curves(names, arguments):
    """Plot ns a tuple over W and over K, of keys that are encoded in advance."""
    print(f"{'ns a tuple':18}", *(f"{f'W={w}':>9}" for w in WORKERS), *(f"{f'K={k}':>9}" for k in KEYS))
    figure, (over_workers, over_keys) = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    middle = Batches(10_000, arguments.tuples, arguments.batch)
    sized = {keys: Batches(keys, arguments.tuples, arguments.batch) for keys in KEYS}
    for name in names:
        by_workers = [middle.ns(warmed(name, w), middle.codes, arguments.repeats) for w in WORKERS]
        by_keys = [sized[k].ns(warmed(name, 100), sized[k].codes, arguments.repeats) for k in KEYS]
        over_workers.loglog(WORKERS, by_workers, marker="o", color=get_colour(name), label=name)
        over_keys.loglog(KEYS, by_keys, marker="o", color=get_colour(name))
        print(f"{name:18}", *(f"{ns:9.1f}" for ns in (*by_workers, *by_keys)))
    over_workers.set(xlabel="workers W (10,000 keys)", ylabel="ns a tuple, keys encoded in advance")
    over_keys.set(xlabel="distinct keys K (100 workers)")
    for axes in (over_workers, over_keys):
        axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.tight_layout(rect=(0, 0, 0.85, 1))
    figure.savefig(arguments.curves, dpi=120)


def main():
    """Measure the groupings in the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groupings", nargs="*", metavar="GROUPING", help="default: all")
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--tuples", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=65_536)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--curves", type=Path, help="plot over W and K into this file instead")
    arguments = parser.parse_args()
    names = [name.upper() for name in arguments.groupings] or list(GROUPINGS)
    (curves if arguments.curves else table)(names, arguments)


if __name__ == "__main__":
    main()
