"""`unskew diagnose` over logs that real Sparks have written (``record_event_logs``), and over a UI's answers."""

import shutil
from http.server import ThreadingHTTPServer
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.apps.diagnosis.diagnoses import (
    COMPUTING,
    WAITING,
    WITHIN,
    compare_predictions,
    compare_work,
    diagnose,
    require_true,
)
from tests.commands import unskew
from tests.http import Request, serving
from tests.pages import ROOT
from unskew.apps.diagnosis.event_log import EventLog
from unskew.apps.diagnosis.log_files import find_logs
from unskew.apps.diagnosis.rest_api import RestApi
from unskew.errors import UsageError
from unskew.loopback import LOOPBACK

DATA = ROOT / "tests" / "data" / "eventlogs"
LOGS = sorted(DATA.glob("spark-*.zst"))
#: The UI's answers are of the run that wrote this log.
LOG = DATA / "spark-4.2.0.zst"


@pytest.fixture
def ui():
    """A server with the answers that a driver's REST API gave."""
    answers = orjson.loads(pa.CompressedInputStream(DATA / "rest.json.zst", "zstd").read())

    class Answer(Request):
        def do_GET(self):
            body = answers.get(self.path.removeprefix("/api/v1/"))
            self.answer(404 if body is None else 200, orjson.dumps(body))

    with serving(ThreadingHTTPServer((LOOPBACK, 0), Answer)) as server:
        yield f"http://{LOOPBACK}:{server.server_port}"


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_each_query_has_its_cause(log):
    require_true(log)


def test_a_picture_of_the_stages(tmp_path):
    done = unskew("diagnose", str(LOG), "--picture", str(tmp_path / "new" / "stages.svg"))
    assert done.returncode == 0
    assert "skewed rows" in done.stdout
    assert (tmp_path / "new" / "stages.svg").read_text().count("<svg") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((LOG, "--picture", "x.doc"), "--picture is 'x.doc'; valid: a file whose name ends with .png, .svg, .pdf"),
        ((LOG, "--key", "k", "--picture", "x.png"), "--picture is given; valid: with --ui or one event log"),
    ],
)
def test_what_is_no_picture(arguments, said):
    done = unskew("diagnose", *map(str, arguments))
    assert (done.returncode, done.stderr.strip()) == (2, f"unskew: {said}")


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_predictions_are_what_the_change_took(log):
    """Of tasks that compute, it is their CPU time: this machine's cores had other programs, too."""
    ratios = compare_predictions(log)
    assert {*ratios} == {*WAITING, *COMPUTING}
    ratios = {name: ratios[name] for name in WAITING} | compare_work(log)
    assert {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > WITHIN} == {}


def test_a_ui_says_what_its_log_says(ui):
    require_true("--ui", ui)
    there, here = diagnose("--ui", ui), diagnose(LOG)
    keys = ("cause", "kind", "operator", "tasks", "slots", "batches", "ratios", "medians")
    for name in ("seconds", "predicted"):
        assert [each[name] for each in there] == pytest.approx([each[name] for each in here])
    assert [[each[key] for key in keys] for each in there] == [[each[key] for key in keys] for each in here]
    assert [each["saved"] for each in here] == sorted((each["saved"] for each in here), reverse=True)
    assert all(each["stage"]["keys"] == other["stage"]["keys"] for each, other in zip(there, here, strict=True))


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, 0),
        ({"numTasks": 49}, 1),
        ({"status": "ACTIVE"}, 1),
        ({"durations": [100.0, 500.0]}, 1),
        ({"more": None}, 1),
    ],
)
def test_only_stages_that_may_have_slow_tasks_are_asked_for_these(changes, asked):
    """Of a stage with many tasks whose slowest one is as slow as the median nothing more is asked."""
    durations = changes.get("durations", [400.0, 500.0])
    stage = {"stageId": 1, "attemptId": 0, "name": "x", "numFailedTasks": 0, "numTasks": 200, "status": "COMPLETE"}
    stage |= {"taskMetricsDistributions": None if "more" in changes else {"duration": durations}} | changes
    application = {"id": "app-1", "name": "x", "attempts": [{"appSparkVersion": "4.2.0"}]}
    seen = []

    def ask(path):
        seen.append(path)
        return {"applications": [application]}.get(path, [stage] if "/stages?" in path else [])

    [_] = RestApi(ask).read()
    assert sum("taskList" in path for path in seen) == asked


def test_what_has_ended_is_forgotten():
    log, most = EventLog(), 0
    for _ in log.read(find_logs(LOG)[0].read_lines()):
        most = max(most, len(log._running) + len(log._properties) + len(log._plans))
    assert most < 12
    assert (log._running, log._properties, log._plans, log._job_stages) == ({}, {}, {}, {})


def test_state_stores_are_compared_by_partition():
    [states] = [found for found in diagnose(LOG, "--query", "stream-plain") if found["kind"] == "state"]
    assert 1 <= states["state_rows"] < 1.5, "each user has one state, also the hot one"


def test_the_table_and_the_advice():
    shown = unskew("diagnose", LOG, "--top", "2", "--query", "join-plain").stdout
    row = next(line for line in shown.splitlines() if line.startswith("│ 1"))
    assert all(cell in row for cell in ("join-plain (stage ", "SortMergeJoin by user", "skewed rows"))
    assert "Rows are sent by the hash of user." in shown
    assert '• balanced_join(left, right, "user", 6): ' in shown
    assert "no hot key" not in shown
    slow = unskew("diagnose", LOG, "--query", "slow-plain").stdout
    assert "though no task has more than 1.2 × the median's rows or bytes" in slow
    assert "No slow task has more than 1.2 × the median's rows or bytes that would explain it: no hot key." in slow
    assert unskew("diagnose", LOG, "--query", "even-plain").stdout.endswith(
        "stages. No task takes 1.5 × its stage's median: nothing to balance.\n"
    )


def test_the_newest_of_several_applications_is_taken(tmp_path):
    for name in ("app-1", "app-2"):
        shutil.copyfile(LOG, tmp_path / f"{name}.zst")
    done = unskew("diagnose", tmp_path)
    assert done.stderr == "2 applications; this is app-2, the newest. --application: app-2, app-1\n"
    assert unskew("diagnose", tmp_path, "--application", "app-1").stderr == ""
    assert (
        "--application is 'app-3'; valid: app-2, app-1" in unskew("diagnose", tmp_path, "--application", "app-3").stderr
    )


def test_a_log_that_was_cut_off_has_the_stages_before(tmp_path):
    whole = LOG.read_bytes()
    cut = tmp_path / "app-1.zstd.inprogress"
    cut.write_bytes(whole[: len(whole) // 2])
    assert 0 < len(diagnose(cut)) < len(diagnose(LOG))


def test_a_line_that_was_cut_off_is_left_out():
    """A driver that was killed leaves a part of its last line; a rolled log goes on in the next file."""
    lines = [*find_logs(LOG)[0].read_lines()]
    for event in (b"SparkListenerTaskEnd", b"SparkListenerStageCompleted"):
        last = max(number for number, line in enumerate(lines) if line.startswith(b'{"Event":"' + event))
        whole = [*EventLog().read(lines[:last])]
        for kept in (5, 15, 30, len(lines[last]) // 2):
            assert [*EventLog().read([*lines[:last], lines[last][:kept]])] == whole
    with pytest.raises(UsageError, match="the log is empty; valid: the log of an application"):
        next(EventLog().read([]))


def test_the_hottest_keys_of_a_table(tmp_path):
    keys = ["hot"] * 80 + [f"user {n}" for n in range(20)]
    pq.write_table(pa.table({"user": keys}), tmp_path / "events.parquet")
    shown = unskew("diagnose", tmp_path / "events.parquet", "--key", "user").stdout
    assert "100 rows, 21 keys of user" in " ".join(shown.split())
    row = next(line for line in shown.splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["hot", "80", "80.0%"]
    found = orjson.loads(
        unskew("diagnose", tmp_path / "events.parquet", "--key", "user", "--json", "--top", "1").stdout
    )
    assert found["keys"] == [{"key": "hot", "tuples": 80, "share": 0.8}]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "nothing is given; valid: one of SOURCE, --ui and --checkpoint"),
        (["log", "--ui", "http://x:4040"], 2, "SOURCE and --ui is given; valid: one of"),
        (["--ui", "http://x:4040", "--key", "user"], 2, "--key is given with --ui; valid: with SOURCE, a table or"),
        (["log", "--key", "user", "--query", "x"], 2, "--query is given; valid: with --ui or event logs"),
        ([LOG, "--query", "join-plan"], 2, "--query is 'join-plan'; did you mean join-plain"),
        (["log", "--conf", "a=b"], 2, "--conf is 'a=b'; valid: with --checkpoint"),
        (["/nowhere"], 2, "there is no event log '/nowhere'; valid: a file, or a folder"),
        ([__file__], 2, "the first line is no event of Spark's; valid: the log of an application"),
        (["--ui", "localhost:4040"], 2, "--ui is 'localhost:4040'; valid: http://HOST:PORT"),
        (["--ui", f"http://{LOOPBACK}:1"], 1, f"http://{LOOPBACK}:1 doesn't answer: "),
        (["--checkpoint", "/nowhere"], 2, "there is no checkpoint '/nowhere'; valid: a query's checkpointLocation"),
        ([str(Path(__file__).parent)], 2, "the first line is no event"),
    ],
)
def test_mistakes_are_one_line(arguments, code, says):
    done = unskew("diagnose", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.splitlines()[-1].startswith("unskew: ")
    assert "Traceback" not in done.stderr


def test_an_application_that_a_ui_lacks_is_refused(ui):
    done = unskew("diagnose", "--ui", ui, "--application", "app-0")
    assert done.returncode == 2
    assert "there is no application 'app-0'" in done.stderr
    assert "answers 404" in unskew("diagnose", "--ui", f"{ui}/other").stderr
