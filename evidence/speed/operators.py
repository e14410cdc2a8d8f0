"""What the keyed operators cost by themselves: no Spark, one process.

    python -m evidence.speed.operators [WORK ...] [--tuples N] [--keys K] [--repeats N]

All keys have a tuple in each batch. CPU time of the process, the median over the repeats: ``update`` of a second batch,
``on_merge`` of what it changed, and ``merge`` of the states after the first and the second batch.
"""

import argparse
import statistics
import time

import numpy as np
import pyarrow as pa

from evidence.tables import make_table, print_table
from unskew import operators

NOW = operators.Now(0, 0)
ALL = {
    "Statistics": operators.Statistics(),
    "Distinct": operators.Distinct(kind="int64"),
    "DistinctCount": operators.DistinctCount(),
    "Sessions": operators.Sessions(gap=30.0),
    "TopK": operators.TopK(),
    "Quantiles": operators.Quantiles(),
    "KllQuantiles": operators.KllQuantiles(),
    "Histogram": operators.Histogram(),
    "NaiveBayes": operators.NaiveBayes(),
    "Latest": operators.Latest(),
    "Enriched": operators.Enriched(),
}


def batch(n, keys):
    """A batch of n tuples, spread evenly over the keys, with every column that a work reads."""
    random = np.random.default_rng(0)
    return pa.RecordBatch.from_pydict(
        {
            "slot": pa.array(random.permutation(np.arange(n) % keys).astype(np.int32)),
            "time": random.integers(0, 10**6, n),
            "value": random.normal(size=n),
            "id": random.integers(0, 50_000, n),
            "item": [f"item{each}" for each in random.zipf(1.3, n) % 5000],
            "class": random.choice(["a", "b", "c"], n),
            "document": [f"d{each}" for each in random.integers(0, 1000, n)],
        }
    )


def timed(call):
    """What a function returns, and the CPU seconds that it took."""
    start = time.process_time()
    return call(), time.process_time() - start


def measure(work, tuples, keys):
    """CPU seconds of update, on_merge and merge, and the bytes of the states."""
    nothing = pa.RecordBatch.from_arrays([pa.nulls(keys, field.type) for field in work.state], schema=work.state)
    first = work.update(tuples, nothing, NOW)[1]
    (_, second), update = timed(lambda: work.update(tuples, first, NOW))
    _, settle = timed(lambda: work.on_merge(first, second, NOW))
    merge = float("nan")
    if work.mergeable:
        both = pa.concat_tables(map(pa.table, (first, second))).combine_chunks().to_batches()[0]
        slots = pa.array(np.tile(np.arange(keys, dtype=np.int32), 2))
        _, merge = timed(lambda: work.merge(both, slots, keys))
    return update, settle, merge, second.nbytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(ALL))
    parser.add_argument("--tuples", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    names = given.works or list(ALL)
    if unknown := [name for name in names if name not in ALL]:
        parser.error(f"unknown work {unknown[0]!r}; valid: {', '.join(ALL)}")
    tuples = batch(given.tuples, given.keys)
    heads = "work", "update, µs a tuple", "on_merge, µs a key", "merge of two, µs a key", "state, bytes a key"
    table = make_table(*heads)
    for name in names:
        measure(ALL[name], tuples, given.keys)  # compiles
        runs = [measure(ALL[name], tuples, given.keys) for _ in range(given.repeats)]
        update, settle, merge, size = map(statistics.median, zip(*runs, strict=True))
        per_key = [f"{1e6 * each / given.keys:.1f}" if each == each else "" for each in (settle, merge)]  # noqa: PLR0124
        table.add_row(f"`{name}`", f"{1e6 * update / given.tuples:.2f}", *per_key, f"{size / given.keys:.0f}")
    print_table(table)


if __name__ == "__main__":
    main()
