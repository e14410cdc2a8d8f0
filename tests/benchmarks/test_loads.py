"""How many messages each worker got: as the engines show it, and how uneven that is."""

import orjson
import pytest

from benchmarks.engines import loads
from benchmarks.engines.__main__ import Measured
from unskew.apps.topology.messages import message

JOB = "75afbf8c0cebe0dc30492901b415f1e7"


@pytest.mark.parametrize(
    ("of", "skew"),
    [
        # Flink's own cases (DoubleAccumulatorTest), and one of FLIP-418
        ([23, 3, 10], 61),
        ([300, 0, 0], 100),
        ([0, 0, 0], 0),
        ([50, 51, 52], 1),
        ([123], 0),
        ([4, 5, 5, 5, 5], 7),
    ],
)
def test_data_skew_is_flinks(of, skew):
    assert loads.data_skew(of) == pytest.approx(skew, abs=0.5)


def test_a_table_has_both_figures_or_neither():
    assert Measured(loads=loads.whole(lambda: [4, 2], 6, 3)).balance() == ("2.00", "67")
    assert Measured().balance() == ("", "")


def test_loads_are_read_until_they_are_whole(monkeypatch, capsys):
    shown = iter([[], [3, 1], [3, 0, 2]])
    found = loads.whole(lambda: next(shown), 5, 4)
    assert found is not None
    assert found.tolist() == [3, 2, 0, 0]
    monkeypatch.setattr(loads, "_PATIENCE", 0)
    assert loads.whole(lambda: [3, 1], 5, 4) is None
    assert "4 of 5 messages" in capsys.readouterr().out


def test_loads_of_ours_are_the_workers_of_all_windows():
    def record(kind, window, worker, tuples):
        made = message(f"{window}/{kind}/{worker}", kind, 0, {"worker": worker}, {"tuples": tuples})
        return made.value

    of = [("WORKER", "w1", "0", 5), ("WORKER", "w1", "1", 2), ("WORKER", "w2", "1", 4), ("HOT_KEY", "w2", "tr", 9)]
    assert loads.of_windows(record(*each) for each in of) == [5, 6]


def test_loads_of_spark_are_what_the_stages_with_work_have_read(tmp_path):
    def stage(number, *names):
        rdds = [
            {"RDD ID": 0, "Name": "MapPartitionsRDD", "Scope": f'{{"id":"spark_plan_36","name":"{name}"}}'}
            for name in names
        ]
        return {
            "Event": "SparkListenerStageSubmitted",
            "Stage Info": {"Stage ID": number, "RDD Info": [*rdds, {"RDD ID": 1}]},
        }

    def task(stage, partition, read):
        metrics = {"Shuffle Read Metrics": {"Total Records Read": read, "Local Bytes Read": 1091}}
        info = {"Task ID": 26, "Index": partition, "Partition ID": partition}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info, "Task Metrics": metrics}

    events = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.2.0"},
        stage(0, "Exchange", "MicroBatchScan"),
        task(0, 0, 0),
        stage(1, "Exchange", "WholeStageCodegen (1)", "MapInArrow", "Exchange"),
        task(1, 0, 128),
        task(1, 6, 4076),
        stage(2, "Exchange", "StateStoreRestore", "StateStoreSave"),
        task(2, 6, 20),
        stage(4, "Exchange", "MapInArrow", "Exchange"),
        task(4, 0, 2),
    ]
    (tmp_path / "local-1795769062649.inprogress").write_bytes(
        b"\n".join([*map(orjson.dumps, events), b'{"Event":"Spa'])
    )
    assert loads.of_spark(tmp_path) == [130, 4076]


def test_loads_of_flink_are_what_the_windows_subtasks_have_read(tmp_path):
    assert loads.of_flink(tmp_path) == []

    def page(path, name, *read):
        subtasks = [
            {"subtask": n, "metrics": {"read-records": each, "write-records": 17}} for n, each in enumerate(read)
        ]
        return {"path": f"/jobs/{JOB}{path}", "json": orjson.dumps({"name": name, "subtasks": subtasks}).decode()}

    source, windows = "/vertices/cbc357ccb763df2852fee8c4fc7d55f2", "/vertices/90bea66de1c231edf33913ecd54406c1"
    pages = [
        {"path": f"/jobs/{JOB}/plan", "json": "{}"},
        page(source, "Source: engines-work -> Map, _stream_key_by_map_operator", 500, 500),
        page(windows, "TumblingEventTimeWindows -> Sink: Writer -> Sink: Committer", 92, 908),
        page(f"{windows}/subtasktimes", "TumblingEventTimeWindows -> Sink: Writer -> Sink: Committer"),
    ]
    archive = orjson.dumps({"archive": pages})
    (tmp_path / JOB).write_bytes(archive[:200])
    assert loads.of_flink(tmp_path) == []
    (tmp_path / JOB).write_bytes(archive)
    assert loads.of_flink(tmp_path) == [92, 908]


def test_loads_of_storm_are_what_the_counting_bolts_tasks_have_executed(tmp_path):
    def report(task, text, bolt="count"):
        of = f"storm.worker.counts-1-1795769129.localhost.{bolt}.default.{task}.1024"
        (tmp_path / f"{of}-__execute-count-messages:default.csv").write_text(text)

    report(10, "t,count\n1795769133,18\n1795769134,123\n")
    report(11, "t,count\n1795769133,2005\n")
    report(12, "t,count\n")
    report(13, "t,count\n1795769133,7\n", "record")
    assert sorted(loads.of_storm(tmp_path)) == [123, 2005]


def test_loads_of_processes_are_the_numbers_that_they_have_written(tmp_path):
    for pid, text in {"71": "4050", "72": "0", "73": ""}.items():
        (tmp_path / pid).write_text(text)
    assert sorted(loads.of_processes(tmp_path)) == [0, 0, 4050]
