"""`unskew results` against a real broker, and what it makes of hostile text."""

import json
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.apps.conftest import produce
from tests.commands import UNSKEW
from tests.tiers import nightly
from tests.waiting import PATIENCE, awaited
from unskew.apps.cli.result_topics.layouts import format_records
from unskew.apps.cli.result_topics.reader import Record, RecordSelection, get_kind
from unskew.apps.cli.results import results
from unskew.errors import UsageError
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import ensure_topic

FIRST, SECOND, THIRD = (f"2026-01-31T12:00:{second}.000Z" for second in ("00", "15", "30"))


def counted(window, key, count, workers=1):
    body = {
        "key": key,
        "messageId": "0",
        "timestamp": 0,
        "tags": {"key": key, "window": window},
        "fields": {"count": count, "tuples": count, "workers": workers},
    }
    return Record(f"{window}/{key}", json.dumps(body).encode())


def send(connection, topic, records, partitions=3):
    produce(connection, topic, partitions, ({"value": record.value, "key": record.key} for record in records))


def shown(renderable, width=120):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_kind_of():
    for topic, kind in {
        "a-s5-w10-dkg-aggregator": "aggregator",
        "a-b-s5-w10-mixedbf-distribution": "distribution",
        "a-s5-w10-dc-results": "results",
        "a-rejected": "rejected",
        "a": None,
        "a-aggregator": None,
        "rejected": None,
    }.items():
        assert get_kind(topic) == kind


record = st.builds(counted, st.sampled_from([FIRST, SECOND, THIRD]), st.sampled_from("abc"), st.integers(0, 9))


@given(st.lists(record), st.integers(0, 20))
def test_selection_keeps_the_last_of_each_key(written, cut):
    final = {r.key: r for r in written}
    newest = max((r.window for r in written), default=None)
    for window, wanted in (
        ("all", final),
        ("latest", {key: r for key, r in final.items() if r.window == newest}),
        (SECOND[:19], {key: r for key, r in final.items() if r.window == SECOND}),
    ):
        selection = RecordSelection(window)
        selection.add(written[:cut])
        taken = selection.add(written[cut:])
        assert {key: r for records in selection.windows.values() for key, r in records.items()} == wanted
        assert [r for r in taken if final[r.key] is r and r.window == newest] == [
            r for r in written[cut:] if final[r.key] is r and r.window == newest and r.key in wanted
        ]


def test_an_unknown_window_is_refused_with_the_valid_ones():
    selection = RecordSelection("2025")
    selection.require_known()  # nothing there at all: nothing to complain of
    selection.add([counted(FIRST, "a", 1)])
    with pytest.raises(UsageError, match=r"'2025'; valid: latest, all, .* 2026-01-31T12:00:00.000Z"):
        selection.require_known()


def test_keys_cannot_act_on_the_terminal():
    nasty = "[red]\x1b[2J\n" + "x" * 300
    records = {"k": counted(FIRST, nasty, 1)}
    text = shown(format_records("aggregator", {FIRST: records}, 20), 80)
    assert "\x1b" not in text
    assert "[red]" in text
    assert text.count("x") >= 300  # a key is never cut
    value = json.dumps(
        {"reason": "not JSON", "topic": "t", "partition": 0, "offset": 1, "timestamp": 5, "value": nasty}
    )
    text = shown(format_records("rejected", {"": {"t-0-1": Record("t-0-1", value.encode())}}, 20), 80)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_most_frequent_keys_first_and_the_number_of_the_others():
    window = {str(i): counted(FIRST, f"key{i}", i, workers=2) for i in range(100)}
    text = shown(format_records("aggregator", {FIRST: window}, 3))
    assert text.index("key99") < text.index("key98") < text.index("key97")
    assert "key96" not in text
    assert "97 more" in text
    assert "key0 " in shown(format_records("aggregator", {FIRST: window}, 0))


def state_result(window, key, start, count, batch=None):
    tags = {"key": key} | ({} if window == "-" else {"window": window})
    body = {"key": key, "messageId": "0", "timestamp": 0, "tags": tags, "fields": {"start": start, "count": count}}
    if batch is not None:
        body["batch"] = dict(zip(("number", "generation"), batch, strict=True))
    return Record(f'{window}/{key}/{{"start":{start}}}', json.dumps(body).encode())


def rows_of(*records):
    """The words of the table's lines."""
    selection = RecordSelection()
    selection.add(records)
    return [
        line.split() for line in shown(format_records("results", selection.windows, 20)).splitlines() if line.strip()
    ]


def test_results_of_a_keyed_work():
    first, *others = rows_of(
        state_result(FIRST, "a", 1, 5),
        state_result(SECOND, "b/c", 7, 1),
        state_result(SECOND, "a", 8, 2),
        state_result(SECOND, "a", 8, 3),
    )
    assert first[0].startswith("2026-01-31T12:00:15")
    assert others[:3] == [["key", "start", "count"], ["a", "8", "3"], ["b/c", "7", "1"]]
    # Without windows; a truth value is no number; and a result that was too large says so.
    large = json.loads(state_result("-", "a" * 30, 1, 5).value) | {"fields": {}, "error": "it has 7 bytes"}
    found = rows_of(Record("-/a/{}", json.dumps(large).encode()), state_result("-", "b", True, 5))
    assert ["a" * 30, "it", "has", "7", "bytes"] in found
    assert ["b", "true", "5"] in found


def test_an_older_result_behind_a_newer_one_does_not_count(connection, topic, capsys):
    """As a driver writes that was paused, or a producer that tries again."""
    name = f"{topic}-s1-w2-kg-results"
    newer = [state_result("-", "a", 1, 5, (7, 0)), state_result(FIRST, "b", 1, 9, (7, 0))]
    older = [state_result("-", "a", 1, 4, (6, 0)), state_result(FIRST, "b", 1, 8, (6, 0))]
    anew = [state_result("-", "c", 1, 4, (0, 30)), state_result("-", "c", 1, 3, (9, 0))]  # another checkpoint
    send(connection, name, [*newer, *older, *anew], 1)
    results(name, json=True, window="all", bootstrap_servers=connection.bootstrap_servers)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(value["key"], value["fields"]["count"]) for value in found} == {("a", 5), ("b", 9), ("c", 4)}
    results(name, window="all", bootstrap_servers=connection.bootstrap_servers)
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("b ")] == [["b", "1", "9"]]


def test_topics_are_listed_and_named_in_errors(connection, topic, capsys):
    name = f"{topic}-s3-w2-kg-aggregator"
    send(connection, name, [counted(FIRST, "a", 1), counted(FIRST, "b", 1)])
    ensure_topic(connection, topic, 1)
    results(bootstrap_servers=connection.bootstrap_servers)
    line = next(line for line in capsys.readouterr().out.splitlines() if name[:40] in line)
    assert "aggregator" in line
    for wrong, problem in ((topic, "holds no results"), (f"{topic}-rejected", "doesn't exist")):
        with pytest.raises(UsageError, match=f"{problem}; result topics: .*{name}"):
            results(wrong, bootstrap_servers=connection.bootstrap_servers)


def test_reads_many_records_over_partitions_to_the_end(connection, topic):
    ensure_topic(connection, topic, 3)
    written = [counted(FIRST, f"key{i}", i) for i in range(25_000)]
    send(connection, topic, written)
    with TopicReader(connection, topic) as reader:
        assert sorted(Record.of(m).key for m in reader.to_end()) == sorted(r.key for r in written)
        assert reader.new(0.1) == []
        send(connection, topic, [counted(SECOND, "late", 1)])
        new = awaited(lambda: reader.new(0.5), "the new record")
        assert [Record.of(m).window for m in new] == [SECOND]
    with TopicReader(connection, topic, {0: 5, 2: 0}) as reader:
        found = [(m.partition(), m.offset()) for m in reader.to_end()]
        assert min(found) == (0, 5)
        assert {partition for partition, _ in found} == {0, 2}
        assert reader.at_end
    with pytest.raises(UsageError, match="there is no topic"):
        TopicReader(connection, f"{topic}-none")


def test_json_is_the_latest_record_of_each_key(connection, topic, capsys):
    name = f"{topic}-s3-w2-kg-aggregator"
    send(connection, name, [counted(FIRST, "a", 1), counted(SECOND, "a", 1), counted(SECOND, "a", 7)])
    at = connection.bootstrap_servers
    results(name, json=True, bootstrap_servers=at)
    assert [json.loads(line)["fields"]["count"] for line in capsys.readouterr().out.splitlines()] == [7]
    results(name, json=True, window="all", bootstrap_servers=at)
    assert sorted(json.loads(line)["fields"]["count"] for line in capsys.readouterr().out.splitlines()) == [1, 7]
    with pytest.raises(UsageError, match="no window starts with '1999'"):
        results(name, window="1999", bootstrap_servers=at)
    ensure_topic(connection, f"{topic}-rejected", 1)
    results(f"{topic}-rejected", bootstrap_servers=at)
    assert "no results yet" in capsys.readouterr().out
    with pytest.raises(UsageError, match="belong to no window"):
        results(f"{topic}-rejected", window="all", bootstrap_servers=at)


@contextmanager
def following(connection, *arguments):
    command = [*UNSKEW, "results", *arguments, "--follow", "--bootstrap-servers", connection.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupt(process):
    os.kill(process.pid, signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    return rest


def read_until(process, text):
    lines = iter(process.stdout.readline, "")
    return next(line for line in lines if text in line)


def test_follow_until_interrupted(connection, topic):
    name = f"{topic}-s1-w2-kg-aggregator"
    send(connection, name, [counted(FIRST, "a", 1)], 1)
    with following(connection, name, "--json") as process:
        assert json.loads(process.stdout.readline())["tags"]["window"] == FIRST
        send(connection, name, [counted(SECOND, "b", 2)], 1)
        assert json.loads(process.stdout.readline())["tags"]["window"] == SECOND
        assert interrupt(process) == ""


@pytest.mark.parametrize("window", ["latest", *nightly("servers", "all")])
def test_follow_prints_windows_as_they_come(connection, topic, window):
    name = f"{topic}-s1-w2-kg-aggregator"
    ensure_topic(connection, name, 1)
    with following(connection, name, "--window", window) as process:
        assert "no results yet" in process.stdout.readline()
        for start, key in ((FIRST, "a"), (SECOND, "b"), (THIRD, "c")):
            send(connection, name, [counted(start, key, 1)], 1)
            line = read_until(process, start[:19])
            assert f" {key} " in line
        rest = interrupt(process)
        assert FIRST[:19] not in rest
        assert SECOND[:19] not in rest
