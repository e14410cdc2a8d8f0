"""`unskew simulate --cost` and `--work`: how long batches take, and whether a grouping is worth it."""

import json
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from tests.commands import unskew
from unskew.apps.cli.simulation import cost_sample
from unskew.apps.cli.simulation.batch_times import BatchTiming
from unskew.apps.cli.simulation.batches import BatchLoad, SimulatedRouters
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.apps.cli.simulation.simulation import Contestant
from unskew.apps.cli.simulation.time_model import (
    KEY,
    BatchTimeModel,
    CostConstants,
    Prediction,
    SimulatedBatches,
    TupleCost,
    describe_recommendation,
)
from unskew.errors import UsageError
from unskew.grouping import create, encode_keys
from unskew.grouping.simulator import make_arrivals, make_workload, simulate
from unskew.operators import DistinctCount


def no_kafka():
    raise AssertionError("Kafka isn't asked for")


def given(spec, tuples=100_000):
    return StreamSpec(spec, tuples, 0, no_kafka)


def timing(spec, tuples=100_000, **others):
    usual = {
        "cost": TupleCost(1.0),
        "costs": [1.0],
        "cores": 2,
        "prices": CostConstants(),
        "factors": [1.0],
        "factors_end": None,
        "sources": 4,
        "split": "even",
        "batch": None,
        "seed": 0,
    }
    return BatchTiming(given(spec, tuples), **(usual | others))


def predicted(timing, workers, *groupings):
    courses = timing.courses([Contestant(name, name, {}) for name in groupings], workers)
    return {label: Prediction.of(course, courses[KEY]) for label, course in courses.items()}, courses[KEY]


@pytest.mark.parametrize("split", ["even", "key"])
@pytest.mark.parametrize("grouping", ["KEY", "PARTIAL_KEY", "BOUNDED_LOAD", "SHUFFLE", "D_CHOICES"])
def test_batches_are_routed_as_by_the_simulator(grouping, split):
    """Cut into batches of a multiple of the sources, a stream goes to the same workers as in one piece."""
    keys = StreamSpec("zipf:z=1.3,k=300", 6000, 1, no_kafka).read().keys
    make = partial(create, grouping, 6)
    whole = simulate(make, make_workload(keys, make_arrivals(0.8, 2.0, 6000, 6), 2.0), sources=3, split=split)
    routers = SimulatedRouters(make, 3, split)
    batches = [
        routers.batch(encode_keys(keys[at : at + 600]), np.full(600, 2.0), np.ones(6), 0) for at in range(0, 6000, 600)
    ]
    assert routers.replicas == whole.memory
    for at, batch in zip(range(0, 6000, 600), batches, strict=True):
        loads = np.bincount(whole.assigned[at : at + 600], minlength=6)
        pairs = {*zip(keys[at : at + 600].tolist(), whole.assigned[at : at + 600].tolist(), strict=True)}
        assert (batch.tuples, batch.most, batch.touched) == (600, loads.max(), len(pairs))
        assert batch.busiest == pytest.approx(0.002 * loads.max())
        assert batch.total == pytest.approx(1.2)


def test_slow_workers_and_dear_tuples_take_longer():
    keys = encode_keys(["a"] * 3)
    batch = SimulatedRouters(partial(create, "SHUFFLE", 3), 1).batch(
        keys, np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 5.0]), 0
    )
    assert (batch.busiest, batch.total) == pytest.approx((0.015, 0.018))


def test_feedback_plans_the_next_batch():
    """MIXED moves keys away from the worker that has most work. KEY can't."""
    both, key = predicted(timing("zipf:z=0.9,k=500", batch=5000), 5, "MIXED")
    busiest = {label: [batch.busiest for batch in each.course.batches] for label, each in both.items()}
    assert busiest["MIXED"][0] == busiest[KEY][0]
    assert np.mean(busiest["MIXED"][10:]) < 0.95 * np.mean(busiest[KEY][10:])
    assert not both["MIXED"].course.splits
    assert key.replicas == key.keys


def test_time_of_a_batch():
    prices = CostConstants(fixed=0.5, routed=1e-6, state=1e-5, merged=0.1)
    batch = BatchLoad(tuples=10_000, busiest=2.0, total=6.0, most=3, touched=1000)
    around = 0.5 + 0.01 + 0.01

    def seconds(cost, *, splits=True, cores=2, **ends):
        return BatchTimeModel(prices, cost, cores).seconds(batch, splits=splits, **ends)

    assert seconds(TupleCost(1.0)) == pytest.approx(around + 2)  # all wait side by side
    assert seconds(TupleCost(1.0, cpu=1.0)) == pytest.approx(around + 3)  # 6 s through two cores
    assert seconds(TupleCost(1.0, cpu=0.5)) == pytest.approx(around + 2)
    assert seconds(TupleCost(1.0, cpu=1.0), cores=8) == pytest.approx(around + 2)
    assert seconds(TupleCost(1.0, states=True)) == pytest.approx(around + 2 + 0.1)
    assert seconds(TupleCost(1.0, states=True), splits=False) == pytest.approx(around + 2)
    assert seconds(TupleCost(1.0), work=1.5, fixed=0.8) == pytest.approx(around - 0.1 + 3)


def test_the_interval_has_all_ends():
    cost = TupleCost(2.0, spread=0.5)
    clock = BatchTimeModel(CostConstants(fixed=1.0, routed=0, state=0), cost, 1)
    slow, fast = ([BatchLoad(1, busiest, 10.0, 1, 1)] * 9 for busiest in (8.0, 1.0))
    key = SimulatedBatches("KEY", 10, clock, False, slow, 1, 1)
    found = Prediction.of(SimulatedBatches("PLANNED", 10, clock, True, fast, 1, 1), key)
    assert found.speedup.value == pytest.approx(9 / 2)
    assert found.speedup.low == pytest.approx((1.2 + 0.75 * 8) / (1.2 + 0.75))
    assert found.speedup.high == pytest.approx((0.8 + 1.25 * 8) / (0.8 + 1.25))
    assert (found.batch.low, found.batch.high) == pytest.approx((0.8 + 0.75, 1.2 + 1.25))


def test_of_those_nearly_as_fast_the_one_with_fewest_replicas_is_recommended():
    predictions, key = predicted(timing("COUNTRY_SKEW_R80"), 10, "SHUFFLE", "PLANNED", "D_CHOICES", "PARTIAL_KEY")
    said = describe_recommendation(predictions, key)
    assert said.startswith("Choose PLANNED: a batch takes 1.4")
    assert "with 1.05 workers a key" in said
    assert predictions["SHUFFLE"].speedup.value > predictions["PLANNED"].speedup.value


EVEN = "KEY is even enough; no grouping is expected to be more than 1.0"
#: With one core, two workers of ten would be enough to keep it busy.
BUSY = "the work of all workers keeps 1 core busy with KEY already;"
LITTLE = "the tuples' work is little beside the rest of a batch;"


@pytest.mark.parametrize(
    ("spec", "workers", "others", "says"),
    [
        ("uniform:k=20000", 10, {}, EVEN),
        ("uniform:k=500000", 2, {}, EVEN),
        ("zipf:z=0.2,k=200000", 10, {}, EVEN),
        ("zipf:z=1.2,k=10000", 10, {"cost": TupleCost(1.0, cpu=1.0), "cores": 1}, BUSY),
        ("COUNTRY_SKEW_R80", 10, {"cost": TupleCost(1e-5), "costs": [1e-5]}, LITTLE),
    ],
)
def test_nothing_is_recommended_where_nothing_is_to_be_had(spec, workers, others, says):
    groupings = ("SHUFFLE", "PLANNED", "BOUNDED_LOAD", "PARTIAL_KEY", "D_CHOICES")
    said = describe_recommendation(*predicted(timing(spec, **others), workers, *groupings))
    assert said.startswith(f"Don't: {says}")


@pytest.mark.parametrize(
    ("cost", "workers", "others", "size"),
    [
        (TupleCost(1.0), 10, {}, 10_000),
        (TupleCost(1.0, cpu=1.0), 10, {"cores": 2}, 2000),
        (TupleCost(1.0, cpu=1.0), 2, {"cores": 8}, 2000),
        (TupleCost(0.0), 10, {}, 1_000_000),
        (TupleCost(5000.0), 3, {"sources": 4}, 4),
        (TupleCost(1.0), 10, {"batch": 77}, 77),
    ],
)
def test_a_batch_has_a_second_of_work(cost, workers, others, size):
    assert timing("zipf", cost=cost, **others).size(workers) == size


def tuples(n, **columns):
    keys = [f"k{i % 7}" for i in range(n)]
    return pa.RecordBatch.from_pydict({"key": keys, "time": np.arange(n), **columns})


class Watch:
    """A clock that goes only when it is told to."""

    def __init__(self, monkeypatch):
        self.wall = self.cpu = self.delayed = 0.0
        monkeypatch.setattr(cost_sample, "time", self)
        monkeypatch.setattr(cost_sample, "_read_delay", lambda: self.delayed)

    def perf_counter(self):
        return self.wall

    monotonic = perf_counter

    def process_time(self):
        return self.cpu


def test_the_users_work_is_measured_without_its_first_call_and_other_processes(monkeypatch):
    watch, calls = Watch(monkeypatch), []

    def work(batch):
        assert batch.schema.names == ["key"]
        watch.wall += 0.006 * len(batch) + (0 if calls else 100)
        watch.cpu += 0.001 * len(batch)
        watch.delayed += 0.002 * len(batch)  # others had the core
        calls.append(len(batch))
        return batch

    found = cost_sample.measure_cost(work, tuples(500))
    assert (found.ms, found.spread, found.cpu) == pytest.approx((4.0, 0.0, 0.25))
    assert not found.states
    assert calls[:4] == [100, 100, 25, 25]  # a tenth of a second


def test_the_spread_is_of_the_mean(monkeypatch):
    watch, calls = Watch(monkeypatch), []

    def work(batch):
        calls.append(len(batch))
        watch.wall += (0.1 if len(calls) % 2 else 0.3) * len(batch)
        return batch

    found = cost_sample.measure_cost(work, tuples(1))
    parts = len(calls) - 2
    assert found.ms == pytest.approx(200, rel=0.02)
    assert found.spread == pytest.approx(2 * 100 / parts**0.5, rel=0.1)


def test_work_with_states_is_measured_with_states():
    known = []

    class Watched(DistinctCount):
        def update(self, tuples, states, now):
            known.append(states.column(0).null_count < len(states))
            return super().update(tuples, states, now)

    found = cost_sample.measure_cost(Watched(), tuples(50, id=[str(i) for i in range(50)]))
    assert found.states
    assert found.ms > 0
    assert known[:4] == [False, True, False, True]


def test_work_that_raises_is_named():
    def fails(batch):
        raise KeyError("colour")

    with pytest.raises(UsageError, match=r"the work failed on the sample \(.*in fails: KeyError: 'colour'"):
        cost_sample.measure_cost(fails, tuples(5))


def test_the_command_measures_work_on_a_file(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import time\n"
        "def waits(batch):\n"
        "    assert batch.column('n').to_pylist()\n"
        "    time.sleep(0.0002 * batch.num_rows)\n"
        "    return batch\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows = "".join(f"{'hot' if i % 5 else f'u{i % 90}'},{i}\n" for i in range(20_000))
    (tmp_path / "events.csv").write_text(f"user,n\n{rows}")
    arguments = ("--groupings", "PLANNED", "--work", "mine:waits", "--work-option", "columns=n", "--batch", "10000")
    result = unskew("simulate", f"{tmp_path}/events.csv:user", *arguments)
    sys.modules.pop("mine", None)
    assert result.returncode == 0, result.stderr
    assert "20,000 tuples of 19 keys in 2 batches of 10,000, S = 5, W = 10" in result.stdout
    assert "Choose PLANNED: " in result.stdout


def test_the_command_prints_advice_and_details_only_when_asked():
    arguments = ("COUNTRY_SKEW_R80", "--tuples", "20000", "--groupings", "PLANNED,SHUFFLE", "--cost", "1")
    plain, detailed = unskew("simulate", *arguments), unskew("simulate", *arguments, "--details")
    assert "Choose PLANNED: " in plain.stdout
    assert "replication" not in plain.stdout
    assert plain.stdout in detailed.stdout
    assert "replication" in detailed.stdout
    assert "imbalance: highest load − mean load." in detailed.stdout, "words are explained beside the table"
    described = json.loads(unskew("simulate", *arguments, "--json").stdout)
    assert (described["tuples"], described["workers"], described["recommended"]) == (20_000, 10, "PLANNED")
    assert described["advice"] in plain.stdout
    assert described["groupings"][0]["grouping"] == "KEY"
    for each in described["groupings"]:
        assert each["speedup"]["low"] <= each["speedup"]["value"] <= each["speedup"]["high"]
        assert f"{each['straggling']:.2f}" in plain.stdout
