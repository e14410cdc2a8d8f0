"""What `unskew diagnose` is to say of the queries that `record_event_logs` records, and what balanced ones measured."""

import json
from pathlib import Path

from tests.commands import unskew
from unskew.apps.diagnosis.event_log import EventLog
from unskew.apps.diagnosis.log_files import find_logs

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


def diagnose(*arguments: object) -> list[dict]:
    """The findings, without those of tasks that start Python."""
    done = unskew("diagnose", *arguments, "--json", "--top", "100")
    assert (done.returncode, done.stderr) == (0, "")
    return [found for found in json.loads(done.stdout)["findings"] if found["cause"] != "start"]


def require_true(*arguments: object) -> None:
    """Require the true cause of each query, and none of the one that is even."""
    for query, (cause, kind, keys) in TRUE.items():
        worst = diagnose(*arguments, "--query", query)[0]
        assert (worst["cause"], worst["kind"], worst["stage"]["keys"]) == (cause, kind, keys), query
        if cause == "skew":
            assert worst["share"] > 0.75, query
            assert worst["ratios"]["rows_read"] > 5, query
            assert f"has {worst['share']:.0%} of all rows" in worst["summary"]
    assert diagnose(*arguments, "--query", "even-plain") == []


def compare_predictions(log: Path) -> dict[str, float]:
    """Query → the predicted time of its stage over what the balanced query's longest one took. Of a stream: a batch."""
    predicted, took = {}, {}
    for query in TRUE:
        worst = diagnose(log, "--query", query)[0]
        if worst["cause"] == "skew":
            predicted[query.removesuffix("-plain")] = worst["predicted"] / max(worst["batches"], 1)
    [files] = find_logs(log)
    for stage in EventLog().read(files.read_lines()):
        name, _, form = stage.query.partition("\n")[0].partition("-")
        if form == "balanced" and stage.is_shuffled and stage.batch:  # a stream's first batch starts Python
            took.setdefault(name, []).append(stage.seconds)
    of_batches = {"stream": sum(took["stream"]) / len(took["stream"])}
    longest = {name: max(seconds) for name, seconds in took.items()} | of_batches
    return {name: seconds / longest[name] for name, seconds in predicted.items()}
