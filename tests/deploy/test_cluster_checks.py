"""`unskew doctor --cluster`: what is found on a good cluster, and on each bad one; and that nothing is changed."""

import json
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation  # pyright: ignore[reportPrivateImportUsage]  it is public

from tests.commands import unskew
from unskew.apps.cli.cluster_checks import list_cluster_checks
from unskew.kafka.topics import ensure_topic, list_topics

GOOD = {
    "min.insync.replicas": "2",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
}
ALL = [AclOperation.READ, AclOperation.DESCRIBE, AclOperation.CREATE]


def done(value):
    def result():
        if isinstance(value, Exception):
            raise value
        return value

    return SimpleNamespace(result=result)


class Cluster:
    """A cluster as the admin client describes it, which can only be asked. Its topic has two partitions."""

    bootstrap_servers = "broker:9092"

    def __init__(self, brokers=3, replicas=3, in_sync=None, rights=ALL, newest=-60.0, **settings):
        self._brokers, self._rights, self._newest = brokers, rights, newest
        nodes = list(range(replicas))
        one = SimpleNamespace(replicas=nodes, isr=nodes[:in_sync])
        self._partitions = [one, SimpleNamespace(replicas=nodes, isr=nodes)]
        self._settings = GOOD | {name.replace("_", "."): value for name, value in settings.items()}

    def admin(self, **_):
        return self

    def list_topics(self, timeout):
        return SimpleNamespace(topics={"clicks": SimpleNamespace(partitions={0: None, 1: None})})

    def describe_cluster(self, **_):
        return done(SimpleNamespace(nodes=[None] * self._brokers, authorized_operations=self._rights))

    def describe_topics(self, names, **_):
        found = SimpleNamespace(partitions=self._partitions, authorized_operations=self._rights)
        return {"clicks": done(found)}

    def describe_configs(self, resources, **_):
        values = {name: SimpleNamespace(value=value) for name, value in self._settings.items()}
        return {resource: done(values) for resource in resources}

    def list_offsets(self, asked, **_):
        newest = round(1000 * (time.time() + self._newest))
        return {partition: done(SimpleNamespace(timestamp=[-1, newest][partition.partition])) for partition in asked}


def checked(cluster, topic: str | None = "clicks", checkpoint=None):
    return {subject: check() for subject, check in list_cluster_checks(cluster, topic, checkpoint).items()}


def test_a_good_cluster(tmp_path):
    found = checked(Cluster(), checkpoint=str(tmp_path))
    assert list(found) == ["brokers", "replication", "retention", "rights", "clock", "checkpoint"]
    assert [subject for subject, each in found.items() if not each.fine] == []
    assert found["replication"].found == "2 partitions, 3 replicas, min.insync.replicas 2"
    assert found["retention"].found == "168 h, any size, cleanup.policy delete"
    assert "not behind a broker's clock" in found["clock"].found
    assert "empty" in found["checkpoint"].found
    assert list(tmp_path.iterdir()) == []
    assert list(checked(Cluster(), topic=None)) == ["brokers"]


@pytest.mark.parametrize(
    ("cluster", "subject", "advice"),
    [
        (Cluster(brokers=1), "brokers", "3 brokers"),
        (Cluster(replicas=1), "replication", "3 replicas"),
        (Cluster(min_insync_replicas="1"), "replication", "min.insync.replicas=2"),
        (Cluster(min_insync_replicas="3"), "replication", "min.insync.replicas below 3"),
        (Cluster(in_sync=2), "replication", "1 partitions have a replica that isn't in sync"),
        (Cluster(retention_ms="3600000"), "retention", "retention.ms of a day"),
        (Cluster(cleanup_policy="compact,delete"), "retention", "cleanup.policy=delete"),
        (Cluster(rights=[AclOperation.DESCRIBE]), "rights", "READ of the topic clicks"),
        (Cluster(newest=30), "clock", "NTP"),
    ],
)
def test_a_bad_one(cluster, subject, advice):
    found = checked(cluster)
    assert [name for name, each in found.items() if not each.fine] == [subject]
    assert advice in found[subject].advice


def test_what_is_only_advice():
    assert "CREATE" in checked(Cluster(rights=ALL[:2]))["rights"].advice
    assert checked(Cluster(rights=None))["rights"].found == "not known: the brokers don't tell"


def test_a_check_that_cannot_be_made_fails_and_the_others_go_on(monkeypatch):
    cluster = Cluster()
    refused = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no right"))
    monkeypatch.setattr(cluster, "describe_topics", lambda *_, **__: {"clicks": done(refused)})
    found = checked(cluster)
    assert {name for name, each in found.items() if not each.fine} == {"replication", "rights"}
    assert (found["rights"].found, found["rights"].advice) == ("not known", "no right")


def test_options_that_belong_to_it():
    assert unskew("doctor", "--topic", "clicks").stderr == "unskew: --topic is for --cluster; give that, too\n"


def test_a_real_broker(connection, topic, tmp_path):
    ensure_topic(connection, topic, 2)
    before = list_topics(connection)
    where = ("--bootstrap-servers", connection.bootstrap_servers, "--topic", topic, "--checkpoint", tmp_path)
    done = unskew("doctor", "--cluster", "--json", *where)
    found = {each["subject"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert {name for name, each in found.items() if not each["fine"]} >= {"brokers", "replication"}
    assert found["replication"]["found"] == "2 partitions, 1 replicas, min.insync.replicas 1"
    assert found["rights"]["fine"], "there is no authorizer"
    assert found["clock"]["found"] == "not known: the topic has no message"
    assert (list_topics(connection), list(tmp_path.iterdir())) == (before, [])
    missing = unskew("doctor", "--cluster", "--json", *where[:2], "--topic", f"{topic}x")
    (replication,) = (each for each in json.loads(missing.stdout) if each["subject"] == "replication")
    assert replication["advice"].startswith(f"there is no topic {topic}x")
