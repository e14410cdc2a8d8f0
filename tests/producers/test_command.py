"""`unskew produce` as users run it."""

import os
import re
import signal
import subprocess
import time

import pytest

from tests.commands import UNSKEW, unskew
from tests.producers.topic_contents import size
from tests.waiting import PATIENCE
from unskew import shell
from unskew.kafka.connection import Connection
from unskew.kafka.topics import end_offsets
from unskew.producers.datasets.registry import DATASETS
from unskew.producers.terminal import stop_on_signal


@pytest.fixture(autouse=True)
def journals(tmp_path, monkeypatch):
    """Loads write their journals where nobody else's are."""
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))


def test_list_shows_every_dataset_with_a_line_each():
    lines = unskew("produce", "--list", COLUMNS="80").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["dataset", *DATASETS, "COLUMN"]


@pytest.mark.usefixtures("impatient")
def test_no_broker_is_one_line_and_exit_1():
    done = unskew("produce", "ZIPF", "--topic", "t", "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("unskew: no Kafka broker answers at 127.0.0.1:1")
    assert done.stderr.count("\n") == 1


def test_an_upload_makes_the_topic_and_ends_with_a_summary(kafka, topic):
    done = unskew(
        *("produce", "country_skew_r80", "--topic", topic, "--records", 50_000, "--partitions", 3),
        KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers,
    )
    assert done.returncode == 0, done.stderr
    assert sum(end_offsets(Connection(kafka.bootstrap_servers), topic).values()) == 50_000
    for row in (r"records\W+50,000\b", r"partitions\W+3\b", r"rate\W+[\d,]+ records/s", r"p1\W+80\.\d", r"Turkey\W+4"):
        assert re.search(row, done.stdout), row


def test_an_existing_topic_keeps_its_partitions(kafka, topic):
    where = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    upload = ("produce", "COUNTRY_SKEW_R0", "--topic", topic, "--records", 100)
    assert unskew(*upload, "--partitions", 2, **where).returncode == 0
    assert unskew(*upload, **where).returncode == 0
    refused = unskew(*upload, "--partitions", 4, **where)
    assert refused.returncode == 2
    assert "has 2 partitions, not the 4" in refused.stderr
    assert end_offsets(Connection(kafka.bootstrap_servers), topic) == {0: 100, 1: 100}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_exit_code_is_what_a_shell_reports_of_the_signal(monkeypatch, number, code):
    monkeypatch.setattr(shell, "_asked", [])
    with stop_on_signal() as stopped:
        assert not stopped()
        signal.raise_signal(number)
        assert stopped()
    assert shell.interruption_exit_code() == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_with_the_summary_of_what_was_sent(connection, topic, number):
    upload = subprocess.Popen(
        [*UNSKEW, *f"produce COUNTRY_SKEW_R80 --topic {topic} --rate 20000 --loop --partitions 2".split()],
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": connection.bootstrap_servers},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not size(connection, topic):
        assert upload.poll() is None
        time.sleep(0.05)
    upload.send_signal(number)
    output, errors = upload.communicate(timeout=PATIENCE)
    assert upload.returncode == 128 + number, errors
    sent = int(re.search(r"records\W+([\d,]+) \(stopped\)", output)[1].replace(",", ""))
    assert sent == sum(end_offsets(connection, topic).values())


def test_a_dry_run_shows_messages_and_statistics_beside_the_published_ones():
    done = unskew("produce", "TWITTER_TICKER", "--scale", "0.2", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"timestamp":1383264')
    assert re.search(r"records\W+138,000\W+138,000\b", done.stdout)
    assert re.search(r"distinct keys\W+5[78]\d\W+580\b", done.stdout)
    assert re.search(r"p1\W+3\.\d+%\W+3\.29%", done.stdout)
    assert "2013-11-30 23:59" in done.stdout


@pytest.mark.parametrize("sent", [False, True])
def test_a_key_does_nothing_to_the_terminal(kafka, topic, tmp_path, sent):
    file = tmp_path / "keys.csv"
    file.write_text("key\n\x1b[2J[/]\n")
    target = ("--topic", topic) if sent else ("--dry-run",)
    where = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    done = unskew("produce", "COLUMN", file, "-o", "column=key", *target, **where)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert r"\x1b[2J[/]" in done.stdout


def test_skew_tells_the_statistics_and_draws_them(tmp_path):
    done = unskew("skew", "TWITTER_TICKER", "WIKIPEDIA_PAGEVIEWS", "--scale", "0.01", "--plot", tmp_path / "skew.svg")
    assert done.returncode == 0, done.stderr
    assert re.search(r"WIKIPEDIA_PAGEVIEWS\W+220,000\W+220,000\W+2[89],\d{3}\W+29,000\W+9\.\d+%\W+9\.32%", done.stdout)
    picture = (tmp_path / "skew.svg").read_text()
    assert picture.startswith("<?xml")
    assert "How skewed" in picture or "<path" in picture
    assert unskew("skew", "NOPE").returncode == 2
    wrong = unskew("skew", "TWITTER_TICKER", "--plot", "skew.txt")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "unskew: --plot skew.txt has no ending of a picture; valid: .png, .svg, .pdf\n"


def test_a_column_of_a_table_is_published_keyed(kafka, topic, tmp_path):
    (tmp_path / "orders.csv").write_text("id,user\n" + "".join(f"{n},u{n % 7}\n" for n in range(1000)) + "7\n")
    done = unskew(
        *("produce", "COLUMN", tmp_path / "orders.csv", "-o", "column=user", "--topic", topic, "--partitions", 2),
        *("--grouping", "PARTIAL_KEY", "--rejects", tmp_path / "rejects.jsonl"),
        KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"records\W+1,000\b", done.stdout)
    assert "1 lines gave no message" in done.stdout
    assert b"1 fields instead of 2" in (tmp_path / "rejects.jsonl").read_bytes()
    ends = end_offsets(Connection(kafka.bootstrap_servers), topic)
    assert sum(ends.values()) == 1000
    assert abs(ends[0] - ends[1]) <= 1


def test_standard_input_is_read_as_it_comes():
    lines = "1383264000\tAAPL\nbroken\n1383264001\tTSLA\n"
    done = subprocess.run(
        [*UNSKEW, "produce", "TWITTER_TICKER", "-", "--dry-run"],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    first, second = '{"timestamp":1383264000,"ticker":"AAPL"}', '{"timestamp":1383264001,"ticker":"TSLA"}'
    assert done.stdout.startswith(f"{first}\n{second}\n")
    assert "-:2: 1 fields instead of 2: 'broken'" in done.stdout


#: The command line, in which FILE is a file without tabs, and what is said of it.
MISTAKES = {
    "COUNTRY_SKEW_R85 --topic t": "unknown dataset 'COUNTRY_SKEW_R85'; did you mean COUNTRY_SKEW_R80 ",
    "": "which dataset? valid: COUNTRY_SKEW_R0, ",
    "ZIPF": "--topic is missing",
    "ZIPF --topic t --rate 0": "rate is 0; valid: above 0",
    "ZIPF --topic t -o keys=many": "keys is 'many'; valid: an integer",
    "ZIPF --topic t --scale 2": "ZIPF has no published size that --scale could change",
    "ZIPF --topic t -o width=3": "ZIPF has no parameter 'width'; valid: z, keys",
    "ZIPF --topic t -o z": "'z' is not NAME=VALUE",
    "COLUMN --dry-run": "COLUMN needs files",
    "COLUMN FILE --dry-run": "which column?",
    "COLUMN FILE -o colour=x --dry-run": "has no parameter 'colour'; did you mean column? valid: column, time",
    "ZIPF FILE --dry-run": "ZIPF is not read from files; valid: TWITTER_TICKER, ",
    "TWITTER_TICKER FILE --scale 2 --dry-run": "--scale is for generated records",
    "TWITTER_TICKER FILE -o z=1 --dry-run": "--option is for generated records",
    "TWITTER_TICKER - --loop --dry-run": "standard input can be read only once",
    "TWITTER_TICKER FILE --strict --dry-run": "line 1: ",
    "TWITTER_TICKER --since soon --dry-run": "'soon' is no moment",
    "TWITTER_TICKER --since 2013-13-01 --dry-run": "'2013-13-01' is no moment",
    "TWITTER_TICKER --since= --dry-run": "'' is no moment",
    "ZIPF --since 0 --dry-run": "ZIPF has no times",
    "ZIPF --topic t --rate 1 --speedup 1": "exclude each other",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(line, tmp_path):
    file = tmp_path / "file.tsv"
    file.write_text("no tab\n")
    done = unskew("produce", *line.replace("FILE", str(file)).split())
    assert done.returncode == 2
    assert MISTAKES[line] in done.stderr
    assert done.stderr.count("\n") == 1
