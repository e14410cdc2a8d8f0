"""`unskew state` shows the states of the run's workers."""

from collections import Counter, defaultdict
from contextlib import nullcontext
from datetime import timedelta
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.apps.conftest import countries, publish, skewed
from tests.apps.stateful import driver
from tests.apps.stateful.driver import Tally
from tests.commands import unskew
from unskew.apps.driver import session
from unskew.apps.worker.stateful.state_reader import States, _decode_states
from unskew.apps.worker.stateful.store import KEY, LAST

cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests


@pytest.fixture
def state(spark, monkeypatch):
    """The command, with the Spark of the tests, which it leaves as it is."""
    monkeypatch.setattr(session, "keep_session", lambda *_: nullcontext())
    return lambda *arguments: unskew("state", *arguments)


def tables(text):
    """The cells of each row, without headings."""
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[0] == "│"]


@pytest.mark.nightly(group="keyed")
def test_it_shows_the_workers_states(state, settings, spark, drain, connection, topic):
    keys = skewed(1_000)
    run = settings("KEY", ttl=3600.0, work=Tally("offset"))
    publish(connection, topic, 2, countries(keys))
    drain(run)
    at = {row["key"]: row["number"] for row in States(spark, run.checkpoint).rows().collect()}
    numbers = Counter(at.values())

    shown = state(run.checkpoint, "--top", "3")
    assert (shown.returncode, shown.stderr) == (0, "")
    rows = tables(shown.stdout)
    assert {row[0]: int(row[1]) for row in rows[:-3]} == {f"worker {n}": count for n, count in numbers.items()}
    # All states are of one size: then by name.
    assert [row[:3] for row in rows[-3:]] == [[key, "16", f"w{at[key]}"] for key in sorted(at)[:3]]

    by_worker = defaultdict(list)
    for key in sorted(at):
        by_worker[at[key]].append(key)
    one, mine = by_worker.popitem()
    rows = tables(state(run.checkpoint, "--worker", one).stdout)
    assert [row[0] for row in rows] == [f"worker {one}", *mine[:10]]

    turkey = state(run.checkpoint, "--key", "Turkey").stdout.splitlines()
    assert turkey[0].startswith(f"worker {at['Turkey']}: 16 bytes, last tuple ")
    offsets = [i // 2 for i, key in enumerate(keys) if key == "Turkey"]
    assert orjson.loads(turkey[1]) == {"n": len(offsets), "total": sum(offsets)}

    elsewhere = (at["Turkey"] + 1) % 4
    for wrong, complaint in (
        (["--key", "Atlantis"], "no state of the key 'Atlantis'"),
        (["--key", "Turkey", "--worker", elsewhere], f"no state of the key 'Turkey' at worker {elsewhere}"),
        (["--worker", "4"], "worker is 4; valid: 0 to 3"),
    ):
        done = state(run.checkpoint, *wrong)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"unskew: {complaint}\n")


def test_there_is_no_such_run(tmp_path):
    done = unskew("state", "nowhere", UNSKEW_HOME=str(tmp_path))
    valid = "none yet, or the path of a checkpoint"
    assert (done.returncode, done.stderr) == (2, f"unskew: there is no run 'nowhere'; valid: {valid}\n")


def test_any_type_of_a_state_is_shown():
    for kind, value, shown in (
        (pa.decimal128(20, 2), Decimal("1234567890.25"), "1234567890.25"),
        (pa.duration("us"), timedelta(hours=1), "1:00:00"),
        (pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
        (pa.list_(pa.binary()), [b"ab"], ["ab"]),
        (pa.int64(), 7, 7),
    ):
        columns = [pa.array(["k"]), pa.array([0]), pa.array([value], kind)]
        states = pa.record_batch(columns, [KEY, LAST, "of"])
        blobs = pa.RecordBatch.from_pylist([{"token": 5, "window": 0, "blob": states.serialize().to_pybytes()}])
        found = next(_decode_states("worker", {5: 0}, {0: states.schema}, full=True, key=None)(iter([blobs])))
        assert orjson.loads(found.column("state")[0].as_py()) == {"of": shown}
