"""The papers' live experiments, at a scale at which they only show that they run, and what they are made of."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evidence.papers.agreement import compare_cells
from evidence.papers.mixed import LIVE as MIXED
from evidence.papers.mixed import live as mixed
from evidence.papers.mixed import stock
from evidence.papers.mixed.q5 import operators, runs
from evidence.papers.mixed.q5.workload import make_warehouse
from evidence.papers.page import Sizing
from evidence.papers.posg import LIVE as POSG
from evidence.papers.posg import live as posg
from evidence.papers.posg import work
from evidence.papers.stage import Course, Stage
from unskew.grouping import create, encode_keys
from unskew.grouping.streams import class_costs
from unskew.operators import Now

TINY = Sizing(scale=0.0001)


def test_a_tuple_costs_by_its_key_and_by_its_instance(monkeypatch):
    slept = []
    monkeypatch.setattr(work, "TaskContext", SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: 1)))
    monkeypatch.setattr(work.time, "sleep", slept.append)
    costs = (1.0, 2.0, 64.0)
    operator = work.Drifting(0.5, costs, 3, (1.0, 0.9), (1.0, 1.1))
    keys = pa.array([f"k{i}" for i in range(6)])
    given = operator(pa.record_batch([keys, pa.array(np.arange(6))], ["key", "offset"]))
    expected = 0.5 * class_costs(encode_keys(keys), costs) * [0.9, 0.9, 0.9, 1.1, 1.1, 1.1]
    assert given.column("cost").to_numpy() == pytest.approx(expected)
    assert slept == [pytest.approx(expected.sum() / 1000)]
    assert given.column("key").equals(keys)


def test_what_a_course_says():
    """By hand: two batches of two workers."""
    course = Course(np.array([[30, 10], [20, 20]]), np.array([[3.0, 1.0], [2.0, 2.0]]))
    assert course.throughput == 80 / 5
    assert course.throughputs.tolist() == [40 / 3, 20]
    assert course.completion == 1000 * (90 + 10 + 40 + 40) / 80
    assert course.completions.tolist() == [2500, 2000]
    assert course.theta == 25
    assert course.within(1).throughput == 20
    timed = replace(course, moved=np.array([3, 4]), seconds=np.array([10.0, 6.0]))
    assert (timed.rate, timed.within(1).rate) == (5, 40 / 6)
    assert timed.within(1).moved.tolist() == [4]


class Imitation(Stage):
    """Routes tuples batch by batch in this process, without plans; work takes no time but that of its cost."""

    def play(self, grouping, topic, keys, *, workers, batch, run="", **settings):
        router, tuples = create(grouping, workers), []
        for start in range(0, len(keys), batch):
            routed = router.route(keys[start : start + batch])
            tuples.append(np.bincount(routed, minlength=workers))
        given = [{"state": "RUN" if at else "SEND_ALL", "epoch": at // 5} for at in range(len(tuples))]
        return Course(np.array(tuples), np.array(tuples) * 0.001, given)

    def play_operator(self, grouping, name, batches, operator, *, workers, key, **arguments):
        router = create("KEY", workers)
        tuples = np.array([np.bincount(router.route(each[key]), minlength=workers) for each in batches])
        course = Course(tuples, tuples * 0.001, moved=tuples[:, 0], seconds=np.ones(len(tuples)))
        return course, join_batches(operator, batches)


def join_batches(operator, batches, at_once=3):
    """The results of an operator that gets some of the batches at a time, and keeps all keys' states here."""
    found, slots = [], pa.array(np.arange(stock.STOCKS))
    states = pa.RecordBatch.from_pylist([{}] * len(slots), operator.state)
    for start in range(0, len(batches), at_once):
        table = pa.concat_tables(batches[start : start + at_once])
        slot = pc.index_in(table["stock"], slots).cast(pa.int32())
        time = table["at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        arrived = table.select(["id", "player", "purchase"]).add_column(0, "slot", slot).add_column(1, "time", time)
        now = Now(max(time.to_pylist()), min(time.to_pylist()))
        results, states = operator.update(arrived.combine_chunks().to_batches()[0], states, now)
        found += [] if results is None else [results]
    return pa.Table.from_batches(found)


def find_pairs_in_python(trades):
    """The pairs of purchases and later sales, by two loops."""
    rows = sorted(trades.to_pylist(), key=lambda row: (row["at"], row["id"]))
    return [
        [bought["id"], sold["id"]]
        for number, sold in enumerate(rows)
        for bought in rows[:number]
        if (bought["stock"], bought["player"]) == (sold["stock"], sold["player"])
        if bought["purchase"] and not sold["purchase"] and sold["at"] - bought["at"] <= timedelta(days=1)
    ]


def test_trades_are_those_of_the_paper_at_any_scale():
    batches = stock.draw_trades(Sizing(scale=0.02))
    trades = pa.concat_tables(batches)
    assert len(batches) == 24
    assert trades.num_rows == 120_000
    assert set(trades["stock"].to_pylist()) == set(range(stock.STOCKS))
    assert sorted(trades["id"].to_pylist()) == list(range(120_000))
    by_id = trades.sort_by("id")["at"].cast(pa.int64()).to_numpy()
    assert (np.diff(by_id) >= 0).all()
    assert by_id[-1] - by_id[0] < 3 * 86_400_000_000
    busiest = []
    for day in range(3):
        shares = np.bincount(pa.concat_tables(batches[8 * day : 8 * day + 8])["stock"].to_numpy()) / 40_000
        busiest.append(set(np.argsort(shares)[-5:].tolist()))
        assert 0.3 < np.sort(shares)[-5:].sum() < 0.4
    assert not busiest[0] & busiest[1], "other stocks burst each day"
    again = stock.draw_trades(Sizing(scale=0.02))
    assert all(one.equals(other) for one, other in zip(batches, again, strict=True))


def test_pairs_are_those_of_two_loops_and_of_the_operator(seed):
    """Also with equal times, and in a part of the batches."""
    random = np.random.default_rng(seed)
    batches = []
    for number, table in enumerate(stock.draw_trades(Sizing(0.0001, seed))):
        at = table["at"].cast(pa.int64()).to_numpy()
        at = pa.array(at // 7_200_000_000 * 7_200_000_000, table.schema.field("at").type)  # in steps of two hours
        few = {"stock": random.integers(0, 5, len(at)), "player": random.integers(0, 3, len(at))}
        batches.append(pa.table({**{name: table[name] for name in table.column_names}, "at": at, **few}))
        assert number < 24
    for part in (batches, batches[5:]):
        wanted = stock.find_pairs(part)
        assert wanted.tolist() == sorted(find_pairs_in_python(pa.concat_tables(part)))
        found = join_batches(stock.TradeJoin(), part)
        assert stock.compare_pairs(found, wanted) == (0, 0, 0)
        assert len(wanted) > 100
    doubled = pa.concat_tables([found, found[:2]])
    assert stock.compare_pairs(doubled, wanted) == (0, 0, 2)
    assert stock.compare_pairs(found[3:], wanted) == (3, 0, 0)
    assert stock.compare_pairs(found, wanted[4:]) == (0, 4, 0)
    assert stock.compare_pairs(found[:0], wanted) == (len(wanted), 0, 0)


def test_a_run_whose_pairs_are_wrong_is_no_result(tmp_path, monkeypatch):
    monkeypatch.setattr(stock, "find_pairs", lambda batches: np.array([[0, 1]]))
    with pytest.raises(ValueError, match=r"stock-.*pairs are wrong, PairFaults"):
        mixed.join_trades(Imitation(None, None, tmp_path), TINY, "KEY")


def test_a_trade_costs_its_worker_time(monkeypatch):
    slept = []
    monkeypatch.setattr(operators.time, "sleep", slept.append)
    batch = stock.draw_trades(TINY)[0]
    join_batches(stock.TradeJoin(2.0), [batch])
    assert slept == [2.0 * batch.num_rows / 1000]


def imitate_runs(settings, stage):
    """Runs of TPC-H's query 5 in which every scheme hashes, and nothing is filtered."""
    warehouse, router = make_warehouse(settings, mixed.WORKERS), create("KEY", mixed.WORKERS)
    streams = {"orderkey": warehouse.lineitem, "suppkey": warehouse.lineitem, "custkey": warehouse.orders}
    courses = {}
    for key, stream in streams.items():
        routed = [router.route(batch[key].to_numpy()) for batch in warehouse.batches(stream)]
        tuples = np.array([np.bincount(workers, minlength=mixed.WORKERS) for workers in routed])
        courses[key] = Course(tuples, tuples * 0.001)
    return {scheme: runs.Run(courses, 0, 0) for scheme in runs.make_schemes()}


@pytest.mark.parametrize("name", [*(("mixed", name) for name in MIXED), *(("posg", name) for name in POSG)])
def test_every_experiment_gives_a_whole_table(name, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "run_all", imitate_runs)
    paper, experiment = name
    report = {"mixed": MIXED, "posg": POSG}[paper][experiment](TINY, Imitation(None, None, tmp_path))
    assert report.rows
    assert all(len(row) == len(report.columns) for row in report.rows)
    assert "nan" not in report.markdown()
    report.save(tmp_path, "report")
    assert len(compare_cells("/".join(name), report)) == len(report.rows)


def test_live_experiments_run(spark, connection, tmp_path, monkeypatch):
    """Through Kafka and Spark: schemes with plans and some without, a work with costs, and one worker more."""
    monkeypatch.setattr(mixed, "F", (1.0,))
    monkeypatch.setattr(posg, "_BATCHES", 3)
    stage = Stage(spark, connection, tmp_path)
    reports = [MIXED["figure-13"](TINY, stage), POSG["figure-11"](TINY, stage)]
    for report in reports:
        assert report.rows
        assert all(len(row) == len(report.columns) for row in report.rows)
        assert [file.suffix for file in report.save(tmp_path, "report")] == [".csv", ".png"]
    keys, batch = mixed.stream(TINY, 1.0)
    course = mixed.course(stage, TINY, "MIXED", 1.0)
    assert course.tuples.sum() == len(keys) - batch
    assert (course.busy.sum(axis=1) >= 0.001 * TINY.scale * batch).all(), "a tuple costs its time"
    before, after = mixed.scaled_out(stage, TINY, "MIXED")
    assert before.tuples.shape[1] == mixed.WORKERS - 1
    assert after.tuples[-1].shape == (mixed.WORKERS,)
    assert before.tuples.sum() + after.tuples.sum() == len(mixed.stream(TINY, 0.0)[0])


def test_the_join_of_trades_runs(spark, tmp_path, monkeypatch):
    """Through files and Spark: its pairs are DuckDB's, while states move; and with one worker more."""
    monkeypatch.setattr(mixed, "WORKERS", 3)
    stage = Stage(spark, None, tmp_path)
    trades = sum(batch.num_rows for batch in stock.draw_trades(TINY)[1:])
    storm, mixed_ = (mixed.join_trades(stage, TINY, name, 0.02) for name in ("KEY", "MIXED"))
    for course in (storm, mixed_):
        assert course.tuples.shape == (23, 3)
        assert course.tuples.sum() == trades
        assert (course.busy.sum(axis=1) > 0).all()
        assert (course.seconds > course.busy.max(axis=1)).all()
    assert not storm.moved.any()
    assert mixed_.moved.any(), "a join in which no state moves would prove nothing"
    before, after = mixed.scale_out_join(stage, TINY, "READJ")
    assert (before.tuples.shape, after.tuples.shape) == ((12, 2), (20, 3))
