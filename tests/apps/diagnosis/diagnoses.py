"""What `unskew diagnose` is to say of the queries that `record_event_logs` records, and what balanced ones measured."""

import json
from pathlib import Path

import numpy as np

from tests.commands import unskew
from unskew.apps.diagnosis.event_log import EventLog
from unskew.apps.diagnosis.findings import Finding, compare_executors, find_cause
from unskew.apps.diagnosis.log_files import find_logs
from unskew.apps.diagnosis.prediction import BALANCED, fit_cost, schedule_tasks
from unskew.apps.diagnosis.stage_tasks import StageTasks

#: Query → the cause, the kind of its operator, and the columns of the shuffle.
TRUE = {
    "group-plain": ("skew", "group", ["user"]),
    "join-plain": ("skew", "join", ["user"]),
    "write-plain": ("skew", "write", ["country"]),
    "stream-plain": ("skew", "state", ["user"]),
    "slow-plain": ("executor", "function", []),
}
#: How far a prediction may be from what the change then took.
WITHIN = 0.25
#: The queries whose tasks wait for a service, and those whose tasks need a core each.
WAITING, COMPUTING = ("group", "stream"), ("join", "write")


def diagnose(*arguments: object) -> list[dict]:
    """The findings, without those of tasks that start Python."""
    done = unskew("diagnose", *arguments, "--json", "--top", "100")
    assert (done.returncode, done.stderr) == (0, "")
    return [found for found in json.loads(done.stdout)["findings"] if found["cause"] != "start"]


def require_true(*arguments: object, without: str = "") -> None:
    """Require the true cause of each query but one, and none of the one that is even."""
    for query, (cause, kind, keys) in TRUE.items():
        if query == without:
            continue
        worst = diagnose(*arguments, "--query", query)[0]
        assert (worst["cause"], worst["kind"], worst["stage"]["keys"]) == (cause, kind, keys), query
        if cause == "skew":
            assert worst["share"] > 0.75, query
            assert worst["ratios"]["rows_read"] > 5, query
            assert f"has {worst['share']:.0%} of all rows" in worst["summary"]
    assert diagnose(*arguments, "--query", "even-plain") == []


def compare_predictions(log: Path) -> dict[str, float]:
    """Query → the predicted time of its stage over what the balanced query's longest one took.

    Of a stream the batches are added up, but for the first, in which each executor starts Python.
    """
    ratios = {}
    for query, found in _list_skewed(log).items():
        if not found:  # it wasn't recorded
            continue
        took = [stage.seconds for stage in _list_shuffled(log, f"{query}-balanced")]
        predicted = sum(each.predicted for each in found.values())
        ratios[query] = predicted / (sum(took) if query == "stream" else max(took))
    return ratios


def compare_work(log: Path) -> dict[str, float]:
    """Query whose tasks compute → the CPU time of its stage as predicted in the same way, over what it then was.

    It is the time on two cores that nobody else uses. On a busy machine a stage takes longer than that.
    """
    ratios = {}
    for query in COMPUTING:
        [plain] = _list_skewed(log)[query]
        [plain] = [stage for stage in _list_shuffled(log, f"{query}-plain") if stage.stage == plain]
        balanced = max(_list_shuffled(log, f"{query}-balanced"), key=lambda stage: stage.seconds)
        model = fit_cost("rows_read", plain.get_numbers("rows_read"), plain.get_numbers("cpu"))
        loads = np.full(len(plain.tasks), plain.get_numbers("rows_read").mean())
        loads[0] *= BALANCED
        measured = schedule_tasks(balanced.get_numbers("cpu"), balanced.concurrency)
        ratios[query] = schedule_tasks(model.predict(loads), plain.concurrency) / measured
    return ratios


def _list_skewed(log: Path) -> dict[str, dict[int, Finding]]:
    """Query → its stages with skew, by number."""
    found = {}
    for query, (cause, *_) in TRUE.items():
        if cause == "skew":
            stages = {stage.stage: find_cause(stage, compare_executors(stage)) for stage in _list_shuffled(log, query)}
            skewed = {number: each for number, each in stages.items() if each and each.cause == "skew"}
            found[query.removesuffix("-plain")] = skewed
    return found


def _list_shuffled(log: Path, query: str) -> list[StageTasks]:
    """The query's stages that read a shuffle, but for those of a stream's first batch."""
    [files] = find_logs(log)
    stages = EventLog().read(files.read_lines())
    return [stage for stage in stages if stage.query.startswith(query) and stage.is_shuffled and stage.batch]
