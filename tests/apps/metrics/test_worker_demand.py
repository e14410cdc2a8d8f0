"""How many workers are wanted: by the arithmetic, and as a metric of a run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.metrics.worker_demand import TARGET, WorkerDemand, count_wanted_workers


def measured(busy, messages, at=0):
    done = report([1] * len(busy))
    batch = replace(done.batch, time_ms=at, start={"t": {"0": 10}}, end={"t": {"0": 10 + messages - 5, "1": 5}})
    return replace(done, busy=np.array(busy, float), batch=batch)


@pytest.mark.parametrize("excess", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("work", [0.1, 0.7, 3.0, 10.5])
def test_it_is_the_least_that_holds_the_rate(work, excess):
    wanted = count_wanted_workers(work, 1.0, excess)
    assert wanted is not None
    busy = {workers: work * (1 / workers + excess) for workers in (wanted, wanted - 1) if workers}
    assert busy[wanted] <= TARGET + 1e-9
    assert all(of > TARGET for workers, of in busy.items() if workers < wanted)


def test_nothing_comes_and_nothing_holds_it():
    assert count_wanted_workers(0, 1.0, 0.5) == 1
    assert count_wanted_workers(10, 0.1, 0.7) is None


def test_costs_are_those_of_the_last_minute():
    demand = WorkerDemand()
    assert demand.count_wanted(5) is None
    demand.add(measured([9, 9], 10))
    demand.add(measured([1, 1], 10, at=61_000))
    demand.add(measured([0, 0], 0, at=62_000))
    assert demand.count_wanted(35) == 10  # 0.2 s each, 7 s a second, evenly
    demand.add(measured([4, 0], 10, at=63_000))
    assert demand.count_wanted(2) == 2  # 0.3 s each, and a third more than the mean at one of them
    assert demand.count_wanted(35) == 2, "no number holds it: the run's own"
    demand.add(measured([1, 1, 1], 10, at=64_000))
    assert demand.count_wanted(0.7) == 1, "of another number of workers"


def test_the_page_has_it_once_arrivals_are_known(tmp_path):
    def progress(batch, second, end):
        source = {"description": "KafkaV2", "endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": end}}}
        own = {"durationMs": {}, "stateOperators": [], "sources": [source]}
        return {"batchId": batch, "timestamp": f"2026-01-01T00:00:{second:02}.000Z", **own}

    with Outputs(Destinations(prometheus_port=0)) as outputs:
        monitor = MetricsReporter(settings(checkpoint=str(tmp_path)), outputs)
        for number, end in enumerate((100, 800)):
            done = measured([5, 5], 100)
            monitor.batch(replace(done, batch=replace(done.batch, number=number)))
            monitor.progress(progress(number, 10 * number, end))
        page = {family.name: family.samples[0].value for family in outputs.exporter.collect()}
    assert page["unskew_workers_wanted"] == 10  # 70 a second of 0.1 s each
