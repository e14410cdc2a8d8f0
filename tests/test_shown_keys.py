"""Keys in all that leaves a job: as the user wants them shown, and in results as they are."""

import os
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report, shown
from tests.commands import unskew
from unskew.apps.aggregator.observer import Distribution, HotKey, make_messages
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.metrics.display import LiveView
from unskew.apps.metrics.metrics_reporter import sample_batch
from unskew.apps.operators.errors import StateFault, describe_keys
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker.failures import MOST_FAILED, FailedTuples
from unskew.apps.worker.worker import Worker
from unskew.errors import UsageError
from unskew.shown_keys import (
    SECRET_VARIABLE,
    VARIABLE,
    choose_key_display,
    list_variables,
    quote_key,
    show_key,
)

KEY = "Mary.Smith@example.org"
SECRET = "a secret of the team"
SHOWN = {"plain": KEY, "hash": "", "prefix:4": "Mary…", "none": "(hidden)"}
HIDING = [how for how in SHOWN if how != "plain"]


@pytest.fixture(autouse=True)
def variables():
    with patch.dict(os.environ, {SECRET_VARIABLE: SECRET}):
        os.environ.pop(VARIABLE, None)
        yield


@pytest.mark.parametrize("how", SHOWN)
def test_a_key_is_shown_as_it_was_chosen(how):
    choose_key_display(how)
    if how == "hash":
        assert len({show_key(key) for key in (KEY, KEY, "other")}) == 2
        assert len(show_key(KEY)) == 16
    else:
        assert show_key(KEY) == SHOWN[how]
    assert list_variables() == ({} if how == "plain" else {VARIABLE: how, SECRET_VARIABLE: SECRET})


def test_a_hash_depends_on_the_secret():
    choose_key_display("hash")
    before = show_key(KEY)
    with patch.dict(os.environ, {SECRET_VARIABLE: "another secret text"}):
        assert show_key(KEY) != before
    with patch.dict(os.environ, {SECRET_VARIABLE: ""}):
        assert show_key(KEY) == "(hidden)", "an executor without the secret"


def test_a_short_key_is_not_shown_whole():
    choose_key_display("prefix:4")
    assert [show_key(key) for key in ("", "A", "Mary", "Marya")] == ["…", "…", "Mar…", "Mary…"]


@pytest.mark.parametrize("wrong", ["", "Plain", "prefix", "prefix:0", "prefix:x", "prefix:-1", "hash:1"])
def test_what_is_no_way_to_show_keys(wrong):
    with pytest.raises(UsageError, match=r"^--keys is '.*'; valid: plain, hash, prefix:N, none$"):
        choose_key_display(wrong)


def test_a_hash_needs_a_secret():
    with patch.dict(os.environ, {SECRET_VARIABLE: "short"}):
        failed = unskew("topology", "LOCAL", "COLUMN", "KEY", "t", 1, 1, "x0", "--keys", "hash")
    assert failed.returncode == 2
    assert failed.stderr == f"unskew: --keys is 'hash', and {SECRET_VARIABLE} has 5 characters; valid: 16 or more\n"


def window() -> Distribution:
    one = np.ones(2, np.int64)
    return Distribution(0, 1000, one, one, one, 1, [HotKey(KEY, 9, 9, 2)])


def failing(tuples):
    raise KeyError(tuples.column("key")[0].as_py())


def caught(call) -> str:
    """All that a log would have of what is raised."""
    with pytest.raises(Exception) as raised:
        call()
    error, texts = raised.value, []
    while error is not None:
        texts.append(f"{error!r}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " ".join(texts)


def outputs(folder) -> dict[str, str]:
    """Output of a job, or report → its text."""
    packets = cut_packets(pa.record_batch({"key": [KEY]}), np.zeros(1, np.int32), 1)
    view = LiveView(settings())
    batch = report([2, 3], [window()])
    view.batch(batch)
    (folder / "keys.csv").write_text("name\n" + f"{KEY}\n" * 50 + "other\n" * 10)
    stream = f"{folder}/keys.csv:name"
    full = FailedTuples([((0, 0, KEY), "")] * MOST_FAILED)
    return {
        "metrics": repr([[sample.labels, sample.values] for sample in sample_batch(batch)]),
        "--live": shown(view),
        "error of a function": caught(lambda: list(Worker(failing)(iter([packets])))),
        "error of too many": caught(lambda: full.add((0, 0, KEY), "raised")),
        "error of an operator": f"{StateFault(describe_keys(pa.array([KEY])))} {quote_key(KEY)}",
        "simulate": unskew("simulate", stream, "--workers", 2).stdout,
        "simulate --json": unskew("simulate", stream, "--workers", 2, "--json").stdout,
        "simulate --join": unskew("simulate", stream, "--join", stream, "--workers", 2).stdout,
    }


def test_every_output_has_keys_if_they_are_plain(tmp_path):
    assert [name for name, text in outputs(tmp_path).items() if KEY[:12] not in text] == []


@pytest.mark.parametrize("how", HIDING)
def test_no_output_but_results_has_a_key(how, tmp_path):
    choose_key_display(how)
    found = outputs(tmp_path)
    assert [name for name, text in found.items() if KEY in text or KEY[:12] in text] == []
    assert [name for name, text in found.items() if show_key(KEY)[:4] not in text] == []
    messages = make_messages(window(), Totals(), {}, [])
    assert KEY in repr([message.value for message in messages])
