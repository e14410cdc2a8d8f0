"""Why a task is slow, of stages that are made up: each has one fault. And the prediction of a stage's time."""

import math
from dataclasses import replace

import numpy as np
import pytest

from unskew.apps.diagnosis.advice import advise, summarise
from unskew.apps.diagnosis.findings import CAUSES, Findings, compare_executors, find_cause
from unskew.apps.diagnosis.prediction import BALANCED, choose_cost, predict_even, schedule_tasks
from unskew.apps.diagnosis.sql_plans import SqlPlan, choose_kind, parse_keys
from unskew.apps.diagnosis.stage_tasks import StageTasks, Task

EVEN = Task(0, 0, "0", "a", "PROCESS_LOCAL", 0, 1_000, 950, 900, 1_000, 8_000, 1_000, 10, 80, 0, 0, 0)
HOT = {"finish": 9_000, "run": 8_900, "rows_read": 9_000, "bytes_read": 72_000}
#: What the slowest of eight tasks has → the cause.
FAULTS = {
    "skew": HOT,
    "garbage collection": {"finish": 5_000, "run": 4_900, "gc": 3_000},
    "shuffle": {"finish": 5_000, "run": 4_900, "wait": 3_000},
    "spill": {"finish": 5_000, "run": 4_900, "spilled": 1 << 30},
    "retry": {"finish": 5_000, "run": 4_900, "attempt": 1},
    "locality": {"finish": 5_000, "run": 4_900, "locality": "ANY"},
    "scheduling": {"finish": 5_000, "run": 900},
    "rows": {"finish": 5_000, "run": 4_900},
}


def make_stage(*tasks, **described):
    described = {"query": "the query", "nodes": ["SortMergeJoin"], "keys": ["user"], "slots": 2, **described}
    return StageTasks(7, tasks=[*tasks], **described)


def make_tasks(count=8, executors=2, **slowest):
    """Even tasks in turn on these executors, one after the other; the last one is slowest."""
    tasks = []
    for number in range(count):
        task = EVEN._replace(
            partition=number, executor=str(number % executors), **(slowest if number == count - 1 else {})
        )
        begin = 1_000 * (number // executors)
        tasks.append(task._replace(launch=begin, finish=begin + task.finish))
    return tasks


def find(stage):
    return find_cause(stage, compare_executors(stage))


@pytest.mark.parametrize("cause", FAULTS)
def test_a_fault_is_the_cause(cause):
    stage = make_stage(*make_tasks(**FAULTS[cause]))
    found = find(stage)
    assert found is not None
    assert (found.cause, found.slowest.partition) == (cause, 7)
    assert found.ratios["seconds"] == pytest.approx(FAULTS[cause]["finish"] / 1_000)
    assert found.predicted < found.seconds
    assert "Task 7 of 8" in summarise(found)
    assert all(advise(found))


def test_even_tasks_have_no_cause_and_short_ones_neither():
    assert find(make_stage(*make_tasks())) is None
    assert find(make_stage(*make_tasks(finish=1_400))) is None
    short = [task._replace(finish=task.launch + (95 if task.partition == 7 else 10)) for task in make_tasks()]
    assert find(make_stage(*short)) is None


def test_a_task_with_somewhat_more_rows_than_others_is_not_slow_by_these():
    """A fifth more rows don't make five times the time."""
    assert find(make_stage(*make_tasks(finish=5_000, run=4_900, rows_read=1_250))).cause == "rows"


def test_rows_that_meet_partners_are_seen_by_what_is_written():
    found = find(make_stage(*make_tasks(finish=9_000, run=8_900, rows_written=90_000)))
    assert (found.cause, found.load) == ("skew", "rows_written")


def test_an_executor_is_the_cause_if_its_tasks_are_slow_and_others_are_not():
    even = make_tasks(12, 3)
    tasks = [
        task._replace(launch=4 * task.launch, finish=4 * task.finish) if task.executor == "1" else task for task in even
    ]
    findings = Findings()
    for number in range(3):
        findings.add(replace(make_stage(*tasks), stage=number))
    findings.add(make_stage(*even))
    worst = findings.list_worst(9)
    assert [each.cause for each in worst] == ["executor"] * 3
    assert worst[0].executor_stages == (3, 4)
    assert advise(worst[0])[0].startswith("Executor 1 is slower in 3 of 4 stages.")


def test_first_tasks_start_python_and_no_change_of_rows_helps():
    tasks = [task._replace(finish=task.finish + (3_000 if task.partition < 2 else 0)) for task in make_tasks(12)]
    found = find(make_stage(*tasks))
    assert (found.cause, found.saved) == ("start", pytest.approx(0, abs=0.5))
    alone, *others = make_tasks(12, 6)
    alone = alone._replace(finish=4_000, run=3_900)
    assert find(make_stage(alone, *others)).cause == "rows", "one of six executors"


def test_a_hot_key_is_found_behind_first_tasks_that_are_slower():
    """As in a stream's first batch."""
    *tasks, hot = make_tasks(6, **{**HOT, "finish": 4_000})
    starts = [task._replace(finish=task.finish + 4_500, run=task.run + 4_500) for task in tasks[:2]]
    tasks = [*starts, *tasks[2:]]
    found = find(make_stage(*tasks, hot))
    assert (found.cause, found.load, found.slowest.partition) == ("skew", "rows_read", 5)
    assert find(make_stage(*tasks, hot._replace(rows_read=1_000, bytes_read=8_000))).cause == "rows"


def test_the_prediction_is_a_list_schedule_of_even_tasks():
    rng = np.random.default_rng(0)
    rows = np.array([80_000, *rng.integers(1_000, 5_000, 15)])
    tasks = [
        EVEN._replace(partition=n, launch=0, finish=round(200 + 0.1 * each), rows_read=int(each), bytes_read=0)
        for n, each in enumerate(rows)
    ]
    stage = make_stage(*tasks, slots=4)
    model = choose_cost(stage)
    assert (model.load, model.explained) == ("rows_read", pytest.approx(1, abs=1e-6))
    assert model.fixed == pytest.approx(0.2, abs=0.01)
    even = 0.2 + 1e-4 * rows.mean()
    assert predict_even(stage, model) == pytest.approx(3 * even + even + (BALANCED - 1) * 1e-4 * rows.mean(), rel=1e-3)


def test_schedules_are_those_of_a_plain_loop():
    rng = np.random.default_rng(1)
    for _ in range(20):
        seconds, slots = rng.random(rng.integers(1, 30)), int(rng.integers(1, 6))
        ends = [0.0] * slots
        for each in seconds:
            ends[ends.index(min(ends))] += each
        assert math.isclose(schedule_tasks(seconds, slots), max(ends))


def test_a_streams_batches_are_one_finding_with_their_sums():
    findings = Findings()
    for batch, hot in enumerate((9_000, 18_000, 9_000)):
        slowest = {**HOT, "finish": hot, "rows_read": hot}
        findings.add(make_stage(*make_tasks(**slowest), stream="q", batch=batch, nodes=["StateStoreSave"]))
    [found] = findings.list_worst(9)
    assert (found.batches, found.stage.batch, found.kind) == (3, 1, "state")
    assert found.seconds == pytest.approx(12 + 21 + 12)
    assert found.ratios["rows_read"] == pytest.approx(36_000 / 3_000)
    assert "in 3 batches" in advise(found)[0]


def test_nothing_is_advised_that_would_not_help():
    """One slot: all tasks are run one after the other anyway."""
    found = find(make_stage(*make_tasks(executors=1, **HOT), slots=1))
    assert advise(found) == [f"Nothing would help much: with even tasks it takes {found.predicted:.1f} s, not 16.0 s."]


@pytest.mark.parametrize(
    ("nodes", "advice"),
    [
        (["SortMergeJoin"], 'balanced_join(left, right, "user", 8): '),
        (["StreamingSymmetricHashJoin"], "balanced_join(left, right, "),
        (["FlatMapGroupsInPandasWithState"], 'keyed_map(df, "user", 8, operator, '),
        (["ObjectHashAggregate", "Sort"], 'balanced_map(df, "user", 8, work, '),
        (["Execute InsertIntoHadoopFsRelationCommand"], 'balanced_write(df, …, by="user", workers=8)'),
        (["MapInPandas"], 'balance(df, "user", 8) before it'),
        (["Window"], "A window needs all rows of its partition"),
    ],
)
def test_each_operator_has_its_call(nodes, advice):
    assert advise(find(make_stage(*make_tasks(**HOT), nodes=nodes)))[0].startswith(advice)
    read = [task._replace(rows_shuffled=0) for task in make_tasks(**HOT)]
    if nodes[0] != "MapInPandas":
        assert advise(find(make_stage(*read, nodes=nodes)))[0].startswith("The tasks would read as much as each other")


def test_aqe_divides_a_partition_of_a_join_that_is_large_enough():
    assert advise(find(make_stage(*make_tasks(**HOT))))[1].startswith("AQE leaves it whole: it has 0 MB")
    large = {**HOT, "bytes_read": 600 << 20}
    assert advise(find(make_stage(*make_tasks(**large))))[1].startswith("AQE divides such a partition")


def test_operators_are_found_by_their_accumulators():
    metrics = lambda first, *names: [{"accumulatorId": first + n, "name": name} for n, name in enumerate(names)]  # noqa: E731
    exchange = {"nodeName": "Exchange", "simpleString": "Exchange hashpartitioning(a#1, f(b#2L, 3), 6), X"}
    exchange |= {"metrics": metrics(20, "data size", "records read"), "children": []}
    sort = {"nodeName": "Sort", "simpleString": "", "metrics": metrics(10, "sort time"), "children": [exchange]}
    wrapper = {"nodeName": "WholeStageCodegen (1)", "simpleString": "", "metrics": metrics(9, "duration")}
    plan = SqlPlan("text")
    plan.add(
        {
            "nodeName": "Window",
            "simpleString": "",
            "metrics": metrics(1, "x"),
            "children": [wrapper | {"children": [sort]}],
        }
    )
    assert plan.find_nodes([1, 9, 10, 21]) == (["Window", "Sort"], ["a", "f(b, 3)"])
    assert plan.find_nodes([20]) == ([], []), "the stage before the shuffle"
    assert parse_keys("Exchange RoundRobinPartitioning(6)") == []
    assert choose_kind(["Sort"]) == ("", "Sort")


def test_all_causes_have_a_name():
    assert {*FAULTS, "executor", "start"} == CAUSES.keys()
