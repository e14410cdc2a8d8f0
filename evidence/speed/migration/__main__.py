"""Keys that move while a stream runs: the latencies of its tuples meanwhile.

    python -m evidence.speed.migration [--keys N] [--rate R] [--shares 0.01 0.1 0.5] [--output DIR]

Megaphone's experiment (Hoffmann et al., *Megaphone: latency-conscious state migration for distributed streaming
dataflows*, PVLDB 2019). A topology keeps a state of each of N keys (``Statistics``, under MIXED) and gets R tuples a
second, of keys at random. For each share, so many of all keys go from the workers of even numbers to their neighbours,
which then have more to do, and back again, so that all have as much as before. Last comes the way without plans: the
query is stopped and started again with one worker more, and half of the states move as it begins; Spark itself goes on.

The table has the states that moved, and the times of the batch that hands them out and of the one that takes them in,
beside the median batch. θ is how far the most loaded worker's tuples are above the mean, before and after. A tuple's
latency is from its time in Kafka to its result's. ``latency.png`` draws p50, p99 and max of each 5 s. Of several tuples
of a key in one batch only the last has a result.
"""

import argparse
from pathlib import Path

from evidence.speed.migration.experiment import Schedule, experiment
from evidence.speed.migration.show import draw, table
from evidence.tables import print_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2_000.0, help="tuples/s (default: 2000)")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.1, 0.5], help="of the keys; 0.5 at most")
    parser.add_argument("--every", type=float, default=20.0, help="s from one move to the next (default: 20)")
    parser.add_argument("--output", type=Path, default=Path("out/migration"))
    given = parser.parse_args()
    schedule = Schedule(given.keys, given.workers, given.rate, tuple(given.shares), given.every)
    done = experiment(schedule, lambda waiting: print(f"… {waiting}", flush=True))
    print_table(table(done))
    print(f"wrote {draw(done, given.output)}")


if __name__ == "__main__":
    main()
