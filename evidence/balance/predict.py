"""Whether `unskew simulate` predicts the speedup over KEY that a live topology then has.

    python -m evidence.balance.predict [--only N] [--seconds S] [--batches N] [--warm N] [--fixed MS]

A combination is a stream, a cost of a tuple, and W. For each, the simulator routes the stream with KEY and with some
groupings, and recommends one of these; if it recommends none, the one that it expects to be the fastest stands for it.
Then topologies run live with KEY and with that grouping, over the same messages in batches of the same size, S = 4. The
tuples' cost is slept, so W workers wait side by side on any machine. A batch has as many tuples as W workers do in
``--seconds``. The first ``--warm`` batches of a run aren't counted, neither live nor predicted.

The fixed cost of a batch depends on the machine. So it is measured first, for each W: batches of few tuples, spread
evenly, less their work. It is measured twice, and the second time counts: at the first Spark is cold. ``--fixed`` gives
it instead. The last line also says how the prediction does with the fixed cost that `unskew simulate` has by default.
"""

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from evidence.speed.measuring import SOURCES, open_bench, ours
from evidence.tables import make_table, print_table
from unskew.apps.cli.simulation.batch_times import BatchTiming
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.apps.cli.simulation.simulation import Contestant
from unskew.apps.cli.simulation.time_model import (
    KEY,
    CostConstants,
    Prediction,
    SimulatedBatches,
    TupleCost,
    recommend_grouping,
)
from unskew.apps.driver.session import open_session
from unskew.apps.settings import Settings
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.publish import publish_dataset

STREAMS = {"R0": "COUNTRY_SKEW_R0", "R30": "COUNTRY_SKEW_R30", "R80": "COUNTRY_SKEW_R80", "ZIPF": "ZIPF"}
#: Cost of a tuple (ms), and W.
WORKS = ((1.0, 10), (0.2, 10), (5.0, 10), (1.0, 4), (5.0, 4))
#: The groupings of which one is recommended.
GROUPINGS = ("PLANNED", "BOUNDED_LOAD", "D_CHOICES")
EVEN = "SHUFFLE"
CLOSE = 0.15  # of the predicted speedup
_FEW, _CALIBRATING = 4, 12  # tuples a worker, and batches, in the runs that measure the fixed cost


class Combination(NamedTuple):
    """A stream, what a tuple costs (ms), and W."""

    stream: str
    cost: float
    workers: int

    def size(self, seconds: float) -> int:
        """The tuples of a batch of so many seconds' work of all workers, a multiple of the sources."""
        return max(1, round(1000 * seconds * self.workers / self.cost / SOURCES)) * SOURCES

    def predicted(self, size: int, batches: int, prices: CostConstants) -> dict[str, SimulatedBatches]:
        """The batches under KEY and the groupings."""
        given = StreamSpec(STREAMS[self.stream], size * batches, 0, _unconnected)
        cost, usual = TupleCost(self.cost), {"factors": [1.0], "factors_end": None, "split": "even", "seed": 0}
        timing = BatchTiming(given, cost, [self.cost], cores=1, prices=prices, sources=SOURCES, batch=size, **usual)
        return timing.courses([Contestant(name, name, {}) for name in GROUPINGS], self.workers)

    def run(self, base: Settings, grouping: str, size: int) -> Settings:
        """The live run."""
        topic, checkpoint = f"{self.stream}-{size}", f"{base.checkpoint}-{'-'.join(map(str, self))}-{grouping}-{size}"
        return replace(
            base,
            source_type=STREAMS[self.stream],
            grouping=grouping,
            topic=topic,
            workers=self.workers,
            process_ms=self.cost,
            max_tuples=size,
            checkpoint=checkpoint,
        )


class Found(NamedTuple):
    """What was found of a combination.

    ``chosen``, ``advised``: The grouping, and whether it was recommended. ``key``: The predicted mean time of KEY's
    batches (s). ``prediction``: That of the grouping. ``usual``: The predicted speedup at the default fixed cost.
    ``live``: The measured times of the batches (s) of KEY and of the grouping.
    """

    of: Combination
    chosen: str
    advised: bool
    key: float
    prediction: Prediction
    usual: float
    live: dict[str, list[float]]

    @property
    def speedup(self) -> float:
        """The measured one."""
        return sum(self.live[KEY]) / sum(self.live[self.chosen])

    def cells(self) -> list[str]:
        """A row of the table."""
        name, speedup = self.chosen if self.advised else f"none ({self.chosen})", self.prediction.speedup
        times = (self.key, np.mean(self.live[KEY]), self.prediction.batch.value, np.mean(self.live[self.chosen]))
        expected = f"{speedup.value:.2f} ({speedup.low:.2f}–{speedup.high:.2f})"
        off = f"{100 * (self.speedup / speedup.value - 1):+.0f} %"
        of = [self.of.stream, f"{self.of.cost:g}", str(self.of.workers), name]
        return [*of, *(f"{seconds:.2f}" for seconds in times), expected, f"{self.speedup:.2f}", off]


def _unconnected() -> Connection:
    raise AssertionError("a dataset needs no Kafka")


def measured(spark: SparkSession, run: Settings, batches: int, warm: int) -> list[float]:
    """The seconds of each batch of a live run that is counted."""
    topic = run.topic
    ensure_topic(run.connection, topic, SOURCES)
    if run.max_tuples is not None and topic not in _PUBLISHED:
        publish_dataset(run.connection, topic, create_dataset(run.source_type, records=run.max_tuples * batches))
        _PUBLISHED.add(topic)
    return [batch.seconds for batch in ours(spark, run)[warm:batches]]


_PUBLISHED: set[str] = set()


def fixed_cost(spark: SparkSession, base: Settings, workers: int) -> float:
    """A batch's fixed cost (s): the median of batches whose workers have a few tuples each, less their work."""
    few = Combination("R0", 1.0, workers)
    size = _FEW * workers // SOURCES * SOURCES
    seconds = measured(spark, few.run(base, EVEN, size), _CALIBRATING, _CALIBRATING // 3)
    return statistics.median(seconds) - size / workers * few.cost / 1000


def held(spark: SparkSession, base: Settings, each: Combination, fixed: float, given: argparse.Namespace) -> Found:
    """A combination predicted, then run live."""
    size, batches = each.size(given.seconds), given.warm + given.batches
    counted = slice(given.warm, batches)

    def predictions(prices: CostConstants) -> tuple[dict[str, Prediction], SimulatedBatches]:
        courses = each.predicted(size, batches, prices)
        late = {label: replace(course, batches=course.batches[counted]) for label, course in courses.items()}
        return {label: Prediction.of(course, late[KEY]) for label, course in late.items()}, late[KEY]

    of_all, key = predictions(CostConstants(fixed=fixed))
    others = {label: found for label, found in of_all.items() if label != KEY}
    advised = recommend_grouping(others)
    chosen = advised or max(others, key=lambda label: others[label].speedup.value)
    live = {name: measured(spark, each.run(base, name, size), batches, given.warm) for name in (KEY, chosen)}
    usual = predictions(CostConstants())[0][chosen].speedup.value
    return Found(each, chosen, advised is not None, float(key.seconds().mean()), of_all[chosen], usual, live)


def summary(found: Sequence[Found], fixed: dict[int, float]) -> str:
    """How many speedups were predicted closely."""
    pairs = [(each.speedup / each.prediction.speedup.value, each.speedup / each.usual) for each in found]
    close, usual = (sum(abs(ratio - 1) <= CLOSE for ratio in ratios) for ratios in zip(*pairs, strict=True))
    costs = ", ".join(f"{1000 * seconds:.0f} ms with W = {workers}" for workers, seconds in fixed.items())
    return (
        f"{close} of {len(found)} measured speedups are within {100 * CLOSE:.0f} % of the predicted ones, at a fixed "
        f"cost of {costs}. With the default {1000 * CostConstants().fixed:.0f} ms: {usual} of {len(found)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    combinations = [Combination(stream, *work) for work, stream in product(WORKS, STREAMS)]
    parser.add_argument("--only", type=int, default=len(combinations), help="the first N combinations")
    parser.add_argument("--seconds", type=float, default=0.5, help="work of a batch, spread evenly")
    parser.add_argument("--batches", type=int, default=4, help="that are counted")
    parser.add_argument("--warm", type=int, default=2, help="batches before these, at least 1")
    parser.add_argument("--fixed", type=float, help="a batch's fixed cost (ms); default: measured first")
    given = parser.parse_args()
    if given.warm < 1 or given.batches < 1:
        parser.error("--warm and --batches have to be at least 1")
    combinations = combinations[: given.only]
    widest = max(each.workers for each in combinations)
    found: list[Found] = []
    fixed: dict[int, float] = {}
    with open_bench() as bench:
        base = bench.settings(KEY, "run", speed="x1", trigger=0.0, workers=widest)
        with open_session(base, (KEY, EVEN, *GROUPINGS)) as spark:
            if given.fixed is None:
                for attempt, each in product(("cold", "warm"), _of_each_w(combinations)):
                    run = replace(base, checkpoint=f"{base.checkpoint}-{attempt}")
                    fixed[each.workers] = fixed_cost(spark, run, each.workers)
            else:
                fixed = {each.workers: given.fixed / 1000 for each in _of_each_w(combinations)}
            print("fixed cost, s:", fixed, flush=True)
            for each in combinations:
                found.append(held(spark, base, each, fixed[each.workers], given))
                print(f"{len(found)} of {len(combinations)}:", *found[-1].cells(), flush=True)
    heads = "KEY, s: predicted", "measured", "its batch, s: predicted", "measured", "speedup: predicted", "measured"
    table = make_table("stream", "ms a tuple", "W", "grouping", *heads, "off", left=4)
    for each in found:
        table.add_row(*each.cells())
    print_table(table)
    print(summary(found, fixed))


def _of_each_w(combinations: Iterable[Combination]) -> list[Combination]:
    return list({each.workers: each for each in combinations}.values())


if __name__ == "__main__":
    main()
