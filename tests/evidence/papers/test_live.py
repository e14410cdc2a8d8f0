"""The papers' live experiments, at a scale at which they only show that they run, and what they are made of."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from evidence.papers.agreement import Table, verdicts
from evidence.papers.mixed import LIVE as MIXED
from evidence.papers.mixed import live as mixed
from evidence.papers.page import Sizing
from evidence.papers.posg import LIVE as POSG
from evidence.papers.posg import live as posg
from evidence.papers.posg import work
from evidence.papers.stage import Course, Stage
from unskew.grouping import create, encode_keys
from unskew.grouping.streams import class_costs

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
    course = Course(np.array([[30, 10], [20, 20]]), np.array([[3.0, 1.0], [2.0, 2.0]]), [{}, {}], [])
    assert course.throughput == 80 / 5
    assert course.throughputs.tolist() == [40 / 3, 20]
    assert course.completion == 1000 * (90 + 10 + 40 + 40) / 80
    assert course.completions.tolist() == [2500, 2000]
    assert course.theta == 25
    assert course.within(1).throughput == 20


class Imitation(Stage):
    """Routes tuples batch by batch in this process, without plans; work takes no time but that of its cost."""

    def play(self, grouping, topic, keys, *, workers, batch, run="", **settings):
        router, tuples = create(grouping, workers), []
        for start in range(0, len(keys), batch):
            routed = router.route(keys[start : start + batch])
            tuples.append(np.bincount(routed, minlength=workers))
        given = [{"state": "RUN" if at else "SEND_ALL", "epoch": at // 5} for at in range(len(tuples))]
        return Course(np.array(tuples), np.array(tuples) * 0.001, given, [])


@pytest.mark.parametrize("name", [*(("mixed", name) for name in MIXED), *(("posg", name) for name in POSG)])
def test_every_experiment_gives_a_whole_table(name, tmp_path):
    paper, experiment = name
    report = {"mixed": MIXED, "posg": POSG}[paper][experiment](TINY, Imitation(None, None, tmp_path))
    assert report.rows
    assert all(len(row) == len(report.columns) for row in report.rows)
    assert "nan" not in report.markdown()
    report.save(tmp_path, "report")
    table = Table.of("/".join(name), report)
    assert len(verdicts(table)) == len(report.rows)


@pytest.mark.spark
@pytest.mark.kafka
def test_live_experiments_run(spark, connection, tmp_path, monkeypatch):
    """Through Kafka and Spark: a scheme with plans and one without, a work with costs, and one worker more."""
    monkeypatch.setattr(mixed, "THETAS", (0.08,))
    monkeypatch.setattr(posg, "_BATCHES", 3)
    stage = Stage(spark, connection, tmp_path)
    reports = [MIXED["figure-16"](TINY, stage), POSG["figure-11"](TINY, stage)]
    for report in reports:
        assert report.rows
        assert all(len(row) == len(report.columns) for row in report.rows)
        assert [file.suffix for file in report.save(tmp_path, "report")] == [".csv", ".png"]
    keys, batch = mixed.stream(TINY, 1.0, 0.85)
    course = mixed.course(stage, TINY, "MIXED", 1.0)
    assert course.tuples.sum() == len(keys) - batch
    assert (course.busy.sum(axis=1) >= 0.001 * TINY.scale * batch).all(), "a tuple costs its time"
    before, after = mixed.scaled_out(stage, TINY, "MIXED")
    assert before.tuples.shape[1] == mixed.WORKERS - 1
    assert after.tuples[-1].shape == (mixed.WORKERS,)
    assert before.tuples.sum() + after.tuples.sum() == len(mixed.stream(TINY, 0.0, 0.85)[0])
