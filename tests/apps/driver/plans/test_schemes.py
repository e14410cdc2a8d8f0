"""Every scheme with feedback by its name in the topology: counts are exact, and the loop does what it is for."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.apps.conftest import by_key, count_by_key, countries, final_counts, publish
from tests.tiers import nightly_but
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.settings import Settings
from unskew.grouping import GROUPINGS, create, measures
from unskew.grouping.simulated_cost import Cost
from unskew.kafka.connection import Connection

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.ci]

TOPIC, WORKERS, BATCH = "feedback", 4, 2_000
#: Name → what it is run with, so that few batches are enough.
FEW: dict[str, dict[str, Any]] = {"KEY": {}, "MIXED": {"theta_max": 0.05}, "POSG": {"window": 64, "tolerance": 0.5}}
ALL = FEW | {
    "LLFD": {},
    "MINTABLE": {},
    "MINMIG": {},
    "MIXED_BF": {},
    "READJ": {},
    "CONSISTENT_HASH": {"rounds": 4, "threshold": 0.0},
    "PARTIAL_KEY": {"probe_every": 1_000},
}
MOVING = ["LLFD", "MINTABLE", "MINMIG", "MIXED", "MIXED_BF", "READJ", "CONSISTENT_HASH"]
#: Together, as one run's fixed costs are another's time to work.
_SIDE_BY_SIDE = 3


@dataclass
class Ran:
    settings: Settings
    reports: list[BatchReport]

    def uneven(self) -> float:
        """Slowest over mean worker in the second half of the batches, by the tuples' simulated cost."""
        batches = [report for report in self.reports if report.loads.sum() == BATCH]
        return float(np.mean([measures.straggler_ratio(report.loads) for report in batches[len(batches) // 2 :]]))


def stream() -> list[str]:
    shares = 1 / np.arange(1, 61) ** 0.8
    return [f"Country {i}" for i in np.random.default_rng(3).choice(60, 6 * BATCH, p=shares / shares.sum())]


@pytest.fixture(scope="module")
def ran(spark, kafka, tmp_path_factory):
    """The run of a scheme: the wanted ones of ``FEW`` or ``ALL`` were run side by side."""
    connection = Connection(kafka.bootstrap_servers)
    publish(connection, TOPIC, 2, countries(stream()))
    done: dict[str, Ran] = {}

    def run(name: str) -> None:
        given = "LOCAL", "COUNTRY_SKEW_R80", name, TOPIC, 2, WORKERS, "x5", connection
        until = {"until_drained": True, "run_time": 600.0, "max_tuples": BATCH}
        checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
        settings = Settings(*given, checkpoint, window=0.5, trigger=0.4, options=ALL[name], **until)
        reports: list[BatchReport] = []
        assert StreamingJob(settings, [reports.append]).run(spark).drained
        done[name] = Ran(settings, reports)

    def of(name: str) -> Ran:
        if name not in done:
            with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
                list(pool.map(run, [each for each in (FEW if name in FEW else ALL) if each not in done]))
        return done[name]

    return of


def test_these_are_all():
    needy = {name for name in GROUPINGS if create(name, 4).controller() is not None}
    assert needy | {"KEY", "PARTIAL_KEY"} == set(ALL)
    assert set(MOVING) == {name for name in GROUPINGS if GROUPINGS[name].migrates_keys}


@pytest.mark.parametrize("name", nightly_but(FEW, ALL, "groupings"))
def test_counts_are_exact(name, ran):
    run = ran(name)
    topic = list_result_topics(run.settings)["aggregator"]
    assert by_key(final_counts(run.settings.connection, topic)) == Counter(stream())


@pytest.mark.parametrize("name", nightly_but(FEW, MOVING, "groupings"))
def test_keys_move_and_the_load_is_more_even(name, ran):
    run = ran(name)
    rebalances = [rebalance for report in run.reports for rebalance in report.rebalances]
    assert rebalances, "a plan was made, and tuples were routed by it"
    first = rebalances[0]
    assert first.plan == 1
    assert first.before > 1
    assert first.table > 0
    shown = {report.batch.number: report for report in run.reports if report.rebalances}
    assert all(rebalance.batch == number for number, report in shown.items() for rebalance in report.rebalances)
    if name == "CONSISTENT_HASH":
        assert first.table > WORKERS
    else:
        assert first.keys > 0
        assert run.uneven() < ran("KEY").uneven()
    adopted = PlanStateLog(run.settings.checkpoint).at(1 << 40).active
    assert adopted.number >= rebalances[-1].plan


def test_posg_knows_what_tuples_cost(ran):
    run = ran("POSG")
    newest = next(report.internals for report in reversed(run.reports) if report.internals)
    assert all(internals["sketches"] == WORKERS for internals in newest.values())
    assert (PlanStateLog(run.settings.checkpoint).at(1 << 40).active.values["means"] >= 0.2).all()
    assert not any(report.rebalances for report in run.reports), "it moves nothing"


@pytest.mark.nightly(group="groupings")
def test_full_knowledge_evens_out_times_where_shuffle_evens_out_tuples(settings, drain, connection, topic):
    cost = Cost(0.0001, (1.0, 40.0))
    names = np.array([f"Country {i}" for i in range(50)])
    dear = cost.of(names) > cost.of(names).min()
    # Of each source's tuples every fourth is dear: round robin sends all of these to one worker.
    keys = [str(names[dear][0] if i // 2 % 4 == 0 else names[~dear][i % 3]) for i in range(2_000)]
    publish(connection, topic, 2, countries(keys))
    uneven = {}
    for name in ("FULL_KNOWLEDGE", "SHUFFLE"):
        run = settings(name, speed="x1", process_ms=0.1, key_costs="1,40", max_tuples=1_000)
        _, reports = drain(run)
        assert count_by_key(run) == Counter(keys)
        uneven[name] = measures.straggler_ratio(sum(report.busy for report in reports))
    assert uneven["SHUFFLE"] > 1.5
    # By times measured on a machine that may be busy.
    assert uneven["FULL_KNOWLEDGE"] - 1 < (uneven["SHUFFLE"] - 1) / 2
