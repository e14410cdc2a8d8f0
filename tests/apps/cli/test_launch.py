"""`unskew topology` as users mistype it: one line, the valid values, the right exit code, no stack trace."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import unskew
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.settings import Settings
from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic

GOOD = ["LOCAL", "COUNTRY_SKEW_R80", "KEY", "some-topic", "2", "4", "x0"]


def changed(position: int, value: str) -> list[str]:
    return [*GOOD[:position], value, *GOOD[position + 1 :]]


def test_usage(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for arguments, error in (
        (changed(0, "CLOUD"), "unknown MODE 'CLOUD'; valid: LOCAL, CLUSTER"),
        (changed(1, "COUNTRY"), "unknown SOURCE_TYPE 'COUNTRY'"),
        (changed(2, "HASH"), "unknown grouping 'HASH'; valid: SHUFFLE, KEY"),
        ([*GOOD[:6], "x0", "--key-costs", "1..64"], "--key-costs is '1..64', but tuples cost nothing; valid: with"),
        (changed(4, "0"), "NUM_SPOUTS is 0"),
        (changed(6, "quick"), "SPEED is 'quick'; valid: x0"),
        ([*GOOD, "-g", "warm_up=3"], "KEY has no parameter 'warm_up'; valid: seed"),
        ([*GOOD, "-g", "sed=3"], "KEY has no parameter 'sed'; did you mean seed? valid: seed"),
        ([*changed(2, "MIXED"), "-g", "window=-1"], "-g window is -1; valid: an integer of at least 1"),
        ([*changed(2, "MIXED"), "--window", "-1"], "--window is -1.0; valid: a number above 0"),
        ([*GOOD, "-g", "seed=x"], "-g seed is 'x'; valid: an integer"),
        ([*changed(1, "COLUMN"), "-s", "kye=a"], "--source-option has no 'kye'; did you mean key? valid: key, format"),
        ([*changed(1, "COLUMN"), "-s", "key"], "--source-option is 'key'; valid: NAME=VALUE"),
        ([*changed(1, "COLUMN"), "-s", "key=a..b"], "-s key is 'a..b'; valid with format json: a field, as user"),
        ([*changed(1, "COLUMN"), "-s", "format=xml"], "unknown -s format 'xml'; valid: json, avro, csv, text"),
        ([*GOOD, "-s", "key=a"], "-s key is for sourceType COLUMN, not COUNTRY_SKEW_R80, which has its own"),
        ([*changed(1, "NEXMARK"), "-s", "unit=s"], "-s unit is 's'; valid: with a time field alone"),
        ([*changed(1, "NEXMARK"), "-s", "time=a..b"], "-s time is 'a..b'; valid: a field of the messages"),
        (changed(3, "a topic"), "SOURCE_NAME 'a topic' can't be a Kafka topic"),
        (changed(0, "CLUSTER"), "MODE is CLUSTER, which needs --master"),
        ([*GOOD, "--metrics", "localhost:8086"], "--metrics is 'localhost:8086'; valid: one http://HOST:PORT"),
        ([*GOOD, "-g", "d"], "'d'; valid: NAME=VALUE"),
        ([*GOOD, "--until", "drain"], "--until is 'drain'; valid: drained, or a number of seconds"),
        ([*GOOD, "--until", "drained", "--until", "0"], "--until is 0.0; valid: a number above 0"),
        ([*GOOD, "--work", "nowhere:f"], "the work 'nowhere:f' can't be loaded"),
        ([*GOOD, "--bootstrap-servers", "localhost"], "'localhost' is no Kafka address"),
    ):
        with subtests.test(error):
            done = unskew("topology", *arguments)  # the error comes before a connection to Kafka
            assert (done.returncode, done.stdout) == (2, "")
            assert error in done.stderr.strip().splitlines()[-1]
            assert "Traceback" not in done.stderr
    mine = ["--work", "unskew.operators:Statistics", "--work-option", "value=offset"]
    for options, error in (
        ([*mine, "--work-option", "gap=3"], "'gap'; valid: value, when, columns, errors, ttl, merge_every"),
        ([*mine, "--work-option", "errors=reject"], "--work-option errors is 'reject'; valid for a work with states"),
        (["--work-option", "errors=skip"], "unknown --work-option errors 'skip'; valid: fail, reject"),
        (["--work-option", "ttl=0"], "--work-option ttl is 0.0; valid: a number above 0"),
        (["--work-option", "ttl=9"], "--work-option ttl is 9.0, but no work has states: give it with --work"),
        (["--work-option", "gap=3"], "--work-option is 'gap', but there is no --work"),
    ):
        with subtests.test(error):
            done = unskew("topology", *GOOD, *options)
            assert done.returncode == 2
            assert error in done.stderr
    # Before the first of them runs, what one of the groupings can't have is refused.
    where = ("--groupings", "D_CHOICES,KEY", "--checkpoint", str(tmp_path))
    done = unskew("compare", GOOD[1], "no-such-topic", "2", "4", "x0", *where, *mine, "--work-option", "merge_every=5s")
    assert "--work-option merge_every is '5s', but KEY splits no keys" in done.stderr
    done = unskew("compare", GOOD[1], "no-such-topic", "2", "0", "x0")
    assert done.returncode == 2
    assert "NUM_WORKERS is 0; valid: a number above 0" in done.stderr


@pytest.mark.usefixtures("impatient")
def test_an_unreachable_broker() -> None:
    done = unskew("topology", *GOOD, "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 1
    assert "no Kafka broker answers at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_topic_with_other_partitions(kafka: Broker, topic: str) -> None:
    ensure_topic(Connection(kafka.bootstrap_servers), topic, 3)
    done = unskew("topology", *changed(3, topic), "--bootstrap-servers", kafka.bootstrap_servers)
    assert done.returncode == 2
    assert f"topic {topic} has 3 partitions, not the 2 asked for" in done.stderr


def test_a_checkpoint_of_another_run(connection: Connection, topic: str, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    where = ["--bootstrap-servers", connection.bootstrap_servers, "--checkpoint", checkpoint]
    StreamingJob(Settings("LOCAL", "COUNTRY_SKEW_R80", "KEY", topic, 2, 4, "x0", connection, checkpoint), [])
    done = unskew("topology", *changed(3, topic), "-g", "seed=7", *where)
    assert done.returncode == 2
    assert "seed 0, this one has 7" in done.stderr.replace("\n", " ")


def test_a_checkpoint_that_cannot_be_reached(kafka: Broker, topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = ["--bootstrap-servers", kafka.bootstrap_servers, "--checkpoint", str(tmp_path / "file" / "checkpoint")]
    done = unskew("topology", *changed(3, topic), *where)
    assert done.returncode == 1
    assert "can't be read" in done.stderr


def test_a_topology_is_imported_without_pandas():
    """It takes a third of a second, and 50 MiB. pyarrow imports it for each array that is made of a list."""
    code = "import sys, unskew.apps.cli.execution; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
