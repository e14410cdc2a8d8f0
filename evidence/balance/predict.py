"""Whether `unskew simulate` predicts the speedup over KEY that a live topology then has.

    python -m evidence.balance.predict [--only N] [--seconds S] [--batches N] [--warm N] [--fixed MS] [--output FILE]

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
import csv
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from evidence.speed.measuring import SOURCES, open_bench, ours
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


@dataclass(frozen=True)
class Found:
    """A combination's figures. Times are means of a batch (s)."""

    stream: str
    cost: float
    workers: int
    grouping: str
    advised: bool
    key_predicted: float
    key_measured: float
    predicted: float
    measured: float
    speedup_predicted: float
    low: float
    high: float
    speedup_measured: float
    by_default: float  # predicted speedup, with the default fixed cost

    @property
    def off(self) -> float:
        """Measured speedup over the predicted one, less 1."""
        return self.speedup_measured / self.speedup_predicted - 1

    @property
    def off_by_default(self) -> float:
        """The same with the default fixed cost."""
        return self.speedup_measured / self.by_default - 1


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
    speedup = of_all[chosen].speedup
    return Found(
        *each,
        chosen,
        advised is not None,
        float(key.seconds().mean()),
        float(np.mean(live[KEY])),
        of_all[chosen].batch.value,
        float(np.mean(live[chosen])),
        speedup.value,
        speedup.low,
        speedup.high,
        sum(live[KEY]) / sum(live[chosen]),
        predictions(CostConstants())[0][chosen].speedup.value,
    )


def table(found: Iterable[Found]) -> Table:
    """A row a combination."""
    heads = ("stream", "ms a tuple", "W", "grouping", "KEY, s: predicted", "measured", "its batch, s: predicted")
    shown = Table(*heads, "measured", "speedup: predicted", "measured", "off", box=MARKDOWN)
    for each in found:
        name = each.grouping if each.advised else f"none ({each.grouping})"
        times = (each.key_predicted, each.key_measured, each.predicted, each.measured)
        expected = f"{each.speedup_predicted:.2f} ({each.low:.2f}–{each.high:.2f})"
        shown.add_row(
            *(each.stream, f"{each.cost:g}", str(each.workers), name),
            *(f"{seconds:.2f}" for seconds in times),
            *(expected, f"{each.speedup_measured:.2f}", f"{100 * each.off:+.0f} %"),
        )
    return shown


def summary(found: Sequence[Found], fixed: dict[int, float]) -> str:
    """How many speedups were predicted closely."""
    close, usual = (sum(abs(off) <= CLOSE for off in offs) for offs in _offs(found))
    costs = ", ".join(f"{1000 * seconds:.0f} ms with W = {workers}" for workers, seconds in fixed.items())
    return (
        f"{close} of {len(found)} measured speedups are within {100 * CLOSE:.0f} % of the predicted ones, at a fixed "
        f"cost of {costs}. With the default {1000 * CostConstants().fixed:.0f} ms: {usual} of {len(found)}."
    )


def _offs(found: Sequence[Found]) -> tuple[list[float], list[float]]:
    return [each.off for each in found], [each.off_by_default for each in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    combinations = [Combination(stream, *work) for work, stream in product(WORKS, STREAMS)]
    parser.add_argument("--only", type=int, default=len(combinations), help="the first N combinations")
    parser.add_argument("--seconds", type=float, default=0.5, help="work of a batch, spread evenly")
    parser.add_argument("--batches", type=int, default=4, help="that are counted")
    parser.add_argument("--warm", type=int, default=2, help="batches before these, at least 1")
    parser.add_argument("--fixed", type=float, help="a batch's fixed cost (ms); default: measured first")
    parser.add_argument("--output", type=Path, default=Path("out/predict.csv"), help="all figures")
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
                print(f"{len(found)} of {len(combinations)}:", found[-1], flush=True)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with given.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(found[0])))
        writer.writeheader()
        writer.writerows(asdict(each) for each in found)
    console = Console(width=160, highlight=False)
    console.print(table(found))
    console.print(summary(found, fixed))


def _of_each_w(combinations: Iterable[Combination]) -> list[Combination]:
    return list({each.workers: each for each in combinations}.values())


if __name__ == "__main__":
    main()
