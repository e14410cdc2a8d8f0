"""The costs of tuples that workers' monitors get: measured, simulated, or by the work's results."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker import worker as workers
from unskew.apps.worker.monitors import WorkerMonitors, share_costs
from unskew.apps.worker.worker import Worker
from unskew.grouping import encode_keys
from unskew.grouping.simulated_cost import FREE, Cost

KEYS = ["Turkey"] * 6 + ["Peru", "Chad"] * 2


class Sent:
    def __init__(self):
        self.sent = {}

    def send(self, batch, worker, report):
        self.sent[worker] = report


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A worker's report of a batch of two packets."""
    monkeypatch.setattr(workers, "get_batch_number", lambda: 5)

    def executed(work=None, cost=FREE, grouping="MIXED", plain=True, **more):
        reports = Sent()
        monitors = WorkerMonitors(Routing(grouping, 4, str(tmp_path), streaming=True, cost=cost))
        keys = pa.array(KEYS) if plain else pa.array(KEYS).dictionary_encode()
        rows = pa.record_batch([keys, pa.array(range(len(KEYS)))], ["key", "offset"])
        packets = [cut_packets(part, np.full(part.num_rows, 2, np.int32), 4) for part in (rows[:7], rows[7:])]
        list(Worker(work, cost, None, reports, monitors=monitors, **more)(packets))
        return reports.sent[2]

    return executed


def by_name(report):
    """Key → (cost, size) as reported."""
    names = {int(h): name for h, name in zip(encode_keys(sorted(set(KEYS))).hashes, sorted(set(KEYS)), strict=True)}
    monitor = report.monitor
    return {
        names[int(key)]: (cost, size)
        for key, cost, size in zip(monitor["keys"], monitor["costs"], monitor["sizes"], strict=True)
    }


@pytest.mark.parametrize("plain", [True, False])
def test_the_time_of_a_packet_is_shared_out_over_its_tuples(run, plain):
    report = run(cost=Cost(0.002), plain=plain)
    costs = by_name(report)
    assert {name: size for name, (_, size) in costs.items()} == Counter(KEYS)
    assert sum(cost for cost, _ in costs.values()) == pytest.approx(1000 * report.busy)
    assert all(cost >= 2 * size for cost, size in costs.values())


def test_costs_by_key_are_the_keys_own(run):
    cost = Cost(0.001, tuple(range(1, 9)))
    report = run(cost=cost)
    own = dict(zip(KEYS, cost.of(KEYS), strict=True))
    costs = by_name(report)
    assert len(set(own.values())) > 1
    rest = {name: (spent - size * own[name]) / size for name, (spent, size) in costs.items()}
    assert min(rest.values()) >= 0
    assert sum(spent for spent, _ in costs.values()) == pytest.approx(1000 * report.busy)


def dear_turkey(tuples):
    keys = tuples.column("key")
    costs = pa.array([50.0 if key == "Turkey" else 0.5 for key in keys.to_pylist()])
    return pa.record_batch([keys, pa.array([1] * len(keys)), costs], ["key", "count", "cost"])


def test_a_work_may_give_the_cost_of_tuples(run):
    assert by_name(run(dear_turkey)) == {"Turkey": (300.0, 6), "Peru": (1.0, 2), "Chad": (1.0, 2)}


def test_results_of_another_shape_than_the_tuples():
    """As many rows as they like: a key's costs are divided among its tuples; keys without tuples don't count."""
    keys = encode_keys(["a", "b", "a", "c"])
    results = pa.table({"key": ["b", "z", "a", "b"], "cost": pa.array([1, 9, 6, 2], pa.int64())})
    assert share_costs(keys, results).tolist() == [3.0, 3.0, 3.0, 0.0]


def test_posg_goes_on_with_its_sketches_from_batch_to_batch(run, monkeypatch):
    def spent():
        return run(dear_turkey, grouping="POSG").monitor["cumulated"]

    assert spent() == 302
    monkeypatch.setattr(workers, "get_batch_number", lambda: 6)
    assert [spent(), spent()] == [604, 604], "run again, batch 6 begins where batch 5 ended"


def test_a_scheme_that_observes_nothing_gets_no_report(run):
    assert run(grouping="KEY").monitor is None
    assert run(grouping="CONSISTENT_HASH").monitor is None
