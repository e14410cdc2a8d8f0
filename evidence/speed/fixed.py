"""What a batch costs however few tuples it has, and what a tuple costs, beside Spark's own groupBy.

    python -m evidence.speed.fixed [--sizes N,N,...] [--workers W,...] [--sources S,...] [--batches N] [--grouping NAME]

Runs of batches of several sizes, x0, in one Spark, in turns: ours with each W and S, Spark's own with each S. A line is
fitted to the median times of a batch over their sizes. The first batches of a run aren't counted. What Spark's
own groupBy finds goes nowhere.
"""

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from evidence.speed.measuring import SOURCES, WORKERS, in_turns, open_bench, ours, parse_numbers
from evidence.speed.native import native
from evidence.tables import make_table, print_table
from unskew.apps.driver.session import open_session

_COLD = 3  # batches at a run's beginning that aren't counted


class Contestant(NamedTuple):
    """A topology of S sources and W workers, or Spark's own groupBy (no W) of a topic of S partitions."""

    sources: int
    workers: int | None

    def __str__(self) -> str:
        """In words."""
        return f"S = {self.sources}, " + ("native" if self.workers is None else f"W = {self.workers}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [1000, 30_000, 100_000, 300_000, 1_000_000]
    parser.add_argument("--sizes", default=sizes, type=parse_numbers, help="tuples a batch, at least two sizes")
    parser.add_argument("--workers", default=[WORKERS], type=parse_numbers, help="of ours")
    parser.add_argument("--sources", default=[SOURCES], type=parse_numbers, help="the topic's partitions")
    parser.add_argument("--batches", type=int, default=12, help=f"of a run, above {_COLD}")
    parser.add_argument("--grouping", default="PARTIAL_KEY", help="of ours")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if len(given.sizes) < 2 or given.batches <= _COLD:
        parser.error(f"--sizes has to name at least two, and --batches has to be above {_COLD}")
    contestants = [Contestant(s, w) for s in given.sources for w in (*given.workers, None)]
    with open_bench() as bench:
        for size in given.sizes:
            for sources in given.sources:
                bench.publish(f"bench-{size}-{sources}", partitions=sources, records=size * given.batches)
        base = bench.settings(given.grouping, "first")
        with open_session(base, [given.grouping]) as spark:

            def run(each: Contestant, size: int, repeat: int) -> list[float]:
                checkpoint = str(bench.folder / f"{each.sources}-{each.workers}-{size}-{repeat}")
                topic, workers = f"bench-{size}-{each.sources}", each.workers or WORKERS
                over = replace(base, topic=topic, sources=each.sources, checkpoint=checkpoint)
                chosen = replace(over, workers=workers, max_tuples=size)
                batches = ours(spark, chosen) if each.workers else native(spark, chosen, size * given.batches)
                return [batch.seconds for batch in batches[_COLD:]]

            pairs = [(each, size) for size in given.sizes for each in contestants]
            found = in_turns({title(*pair): partial(run, *pair) for pair in pairs}, given.repeats)
    medians = {pair: statistics.median(chain.from_iterable(found[title(*pair)])) for pair in pairs}
    _print({each: {size: medians[each, size] for size in given.sizes} for each in contestants})


def title(each: Contestant, size: int) -> str:
    """A contestant with batches of a size, in words."""
    return f"{each}, {size:,} a batch"


def _print(medians: Mapping[Contestant, Mapping[int, float]]) -> None:
    """Print a row a contestant, of each one's median seconds by size."""
    sizes = list(next(iter(medians.values())))
    table = make_table("a batch of", *(f"{size:,}" for size in sizes), "fixed, ms", "ns a tuple")
    for each, of_size in medians.items():
        seconds = list(of_size.values())
        slope, fixed = np.polyfit(sizes, seconds, 1)
        beside = medians[Contestant(each.sources, None)].values()
        shown = [f"{1000 * a:,.0f} ms ({a / b:.2f})" for a, b in zip(seconds, beside, strict=True)]
        table.add_row(str(each), *shown, f"{1000 * fixed:,.0f}", f"{1e9 * slope:,.0f}")
    print_table(table)
    print("In brackets: × native with as many sources.")


if __name__ == "__main__":
    main()
