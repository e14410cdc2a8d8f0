"""`--log-format json`: each line is an event, with the names that the page gives."""

import json
import logging
import re

import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report
from tests.commands import unskew
from tests.pages import PAGES
from unskew.apps.cli.execution import EventWriter
from unskew.apps.driver.job_summary import JobTally
from unskew.apps.driver.streaming_job import JobOutcome
from unskew.apps.metrics.display import Display
from unskew.grouping.feedback_loop import Rebalance
from unskew.log_format import choose_log_format, report_failure

RUN = ("topology", "LOCAL", "COUNTRY_SKEW_R80", "KEY", "some-topic", 2, 4, "x0")
COMMON = {"time", "level", "event", "logger", "message"}


@pytest.fixture(autouse=True)
def text_again():
    yield
    choose_log_format("text")


def named_on_the_page() -> dict[str, set[str]]:
    """Event → its fields."""
    page = PAGES["docs/topology.md"].read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (`.+?) \| (.+) \|$", re.split("\n##+ ", page.split("### JSON log")[1])[0])
    return {
        event: set(re.findall(r"`(\w+)`", fields)) for names, fields in rows for event in re.findall(r"`(\w+)`", names)
    }


def test_each_line_is_an_event_with_the_names_of_the_page(capsys):
    choose_log_format("json")
    run, tally = settings(), JobTally("KEY")
    rebalance = Rebalance(3, 7, 0.0021, 12, 2.4, keys=1500, batch=9, after=1.125)
    batch = report([3, 1])
    tally(batch)
    with EventWriter(run, lambda: "2 points lost") as events:
        events.target(7)
        events.note("a page")
        events.batch(batch)
        object.__setattr__(batch, "rebalances", (rebalance,))
        events.batch(batch)
        events.show_stop()
        events.summary(tally.summary(), JobOutcome(True, 2), {"aggregator": "a"})
    report_failure("it failed", 3)
    logging.getLogger("unskew.apps.driver").error("of %s lines", 2, exc_info=ValueError("a\nb"))
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.err.splitlines()]
    assert printed.out == ""
    fields: dict[str, set[str]] = {}
    for line in lines:
        fields.setdefault(line["event"], set()).update(line.keys() - COMMON)
        assert line.keys() >= COMMON
    assert fields == named_on_the_page()
    assert lines[-1]["message"] == "of 2 lines"
    assert lines[-1]["traceback"].endswith("ValueError: a\nb")
    assert [line["exit_code"] for line in lines if line["event"] == "failed"] == [3]
    (batches, *_) = (line for line in lines if line["event"] == "batch")
    assert (batches["tuples"], batches["std_dev"], batches["notice"]) == (4, 25.0, "2 points lost")


def test_it_has_what_a_display_has():
    own = {name for name in vars(EventWriter) if not name.startswith("_")}
    assert own == {name for name in vars(Display) if not name.startswith("_")} - {"say"}


def test_an_error_of_the_user_is_an_event():
    failed = unskew(*RUN, "--log-format", "json", "--window", "-1")
    assert failed.returncode == 2
    (line,) = failed.stderr.splitlines()
    assert json.loads(line)["event"] == "failed"
    assert json.loads(line)["message"].startswith("--window is -1.0; valid: ")


def test_what_cannot_be():
    assert unskew(*RUN, "--log-format", "yaml").stderr == "unskew: --log-format is 'yaml'; valid: text, json\n"
    failed = unskew(*RUN, "--log-format", "json", "--live")
    assert json.loads(failed.stderr)["message"] == "--live with --log-format json; valid: one of them"
