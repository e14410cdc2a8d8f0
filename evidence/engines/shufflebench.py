"""How skewed ShuffleBench's tuples are, and how many events it has.

    python -m evidence.engines.shufflebench [--rules N] [--selectivity X] [--exponents S,S,…] [--records N]
        [--workers W]

ShuffleBench (Henning et al., ICPE 2024) sends records of random bytes. A rule matches a share of them, its selectivity,
and each match is a tuple for the rule's consumer. So a record has no, one or several tuples. The selectivities follow
Zipf's law, with exponent 0 where its authors run it. Their sum is the mean number of tuples a record. A consumer
publishes an event at each tenth of its tuples.

The columns: all tuples. The consumers that have any. The share of the hottest consumer in the tuples. All events, and
the consumers that have one. The largest over the mean worker with KEY, and what that is at least while each consumer is
at one worker.
"""

import argparse
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evidence.engines.matcher import CIRCLE, EVERY
from evidence.tables import make_table, print_table
from unskew.grouping import create


class Rules(NamedTuple):
    """The rules of n consumers. Each matches the hashes of an interval on a circle of 2⁶³ hashes.

    ``starts``, ``widths`` (uint64[n]): The intervals' first hashes, below 2⁶³, and their lengths, 2⁶³ at most.
    """

    starts: NDArray[np.uint64]
    widths: NDArray[np.uint64]

    def received(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """How many tuples each consumer gets of records with these hashes (uint64, below 2⁶³): int64[n]."""
        ordered = np.sort(hashes)
        ends = self.starts + self.widths
        # The part of an interval that is past the circle's end begins anew at 0.
        beyond = np.maximum(ends, np.uint64(CIRCLE)) - np.uint64(CIRCLE)
        first, last, anew = (np.searchsorted(ordered, each) for each in (self.starts, ends, beyond))
        return last - first + anew


def drawn(selectivities: NDArray[np.float64], rng: np.random.Generator) -> Rules:
    """Rules with these selectivities, n ≥ 1. From 1 on a rule matches all records.

    ShuffleBench hashes the number of a rule for the interval's start, and here it is drawn.
    """
    starts = rng.integers(0, CIRCLE, len(selectivities), np.uint64)
    return Rules(starts, np.ldexp(np.minimum(selectivities, 1.0), 63).astype(np.uint64))


def zipf(rules: int, total: float, exponent: float) -> NDArray[np.float64]:
    """The selectivities of rules 1 to n, float64[n]: that of rule k is ∝ k^-exponent, and their sum is ``total``."""
    weights = np.arange(1, rules + 1, dtype=np.float64) ** -exponent
    return total * weights / weights.sum()


def events(received: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many events consumers publish, int64[n], in whatever order their tuples come.

    Counts begin at 0, as they do by default. ShuffleBench's deployments let them begin at 0 to 9, according to the
    consumer's first record, so their number of events depends on the order.
    """
    return received // EVERY


def main() -> None:
    """Print a row for each exponent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--selectivity", type=float, default=0.2, help="of all rules together; default: %(default)s")
    parser.add_argument("--exponents", default="0,1,1.5", help="default: %(default)s")
    parser.add_argument("--records", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=10, help="default: %(default)s")
    given = parser.parse_args()
    heads = "s", "tuples", "consumers", "hottest", "events", "consumers with one"
    title = f"{given.rules:,} rules, {given.records:,} records, W = {given.workers}"
    table = make_table(*heads, "KEY: max/mean", "unsplit: at least", title=title)
    # A hash of random bytes is a random number.
    hashes = np.random.default_rng(1).integers(0, CIRCLE, given.records, np.uint64)
    for exponent in map(float, given.exponents.split(",")):
        rules = drawn(zipf(given.rules, given.selectivity, exponent), np.random.default_rng(0))
        received = rules.received(hashes)
        there = np.flatnonzero(received)
        tuples, published = received.sum(), events(received)
        names = pa.array([f"consumer_{number}" for number in there])
        workers = create("KEY", given.workers).route(names)
        loads = np.bincount(workers, weights=received[there], minlength=given.workers)
        hottest = received.max() / tuples
        cells = f"{tuples:,}", f"{len(there):,}", f"{hottest:.1%}", f"{published.sum():,}", f"{(published > 0).sum():,}"
        table.add_row(
            f"{exponent:g}", *cells, f"{loads.max() / loads.mean():.2f}", f"{max(1.0, hottest * given.workers):.2f}"
        )
    print_table(table)


if __name__ == "__main__":
    main()
