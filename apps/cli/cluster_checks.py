"""What a run in production needs of Kafka, its topic and its checkpoint's store. The checks only read."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from unskew.errors import UserError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import count_partitions, missing_topic, read_topic_settings

_PATIENCE = 8.0  # s
_REPLICAS = 3  # one broker may be down for maintenance, and another may fail
_DAY_MS = 86_400_000
_AHEAD = 1.0  # s
# How a store makes a file only if there is none, on which two drivers of a checkpoint rely.
_CREATES = {
    "file": "by a link",
    "dbfs": "by a link, through its mount",
    "s3a": "by If-None-Match, which the store must know",
    "hdfs": "by HDFS' own create",
    "gs": "by ifGenerationMatch",
    "abfs": "by If-None-Match",
    "abfss": "by If-None-Match",
}


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: what was found, whether that is enough, and what to do if not."""

    found: str
    fine: bool = True
    advice: str = ""


Check: TypeAlias = Callable[[], CheckResult]


def list_cluster_checks(connection: Connection, topic: str | None, checkpoint: str | None) -> dict[str, Check]:
    """Subject → check: those of a cluster, and of a topic and a checkpoint if they are given."""
    checks: dict[str, Check] = {"brokers": lambda: _check_brokers(connection)}
    if topic is not None:
        of_topic = {
            "replication": _check_replication,
            "retention": _check_retention,
            "rights": _check_rights,
            "clock": _check_clock,
        }
        checks |= {subject: partial(check, connection, topic) for subject, check in of_topic.items()}
    if checkpoint is not None:
        checks["checkpoint"] = lambda: _check_checkpoint(checkpoint)
    return {subject: partial(_guard, check) for subject, check in checks.items()}


def _guard(check: Check) -> CheckResult:
    """A check that can't be made is one that fails, and the others go on."""
    from confluent_kafka import KafkaException

    try:
        return check()
    except UserError as error:
        return CheckResult("not known", fine=False, advice=str(error))
    except KafkaException as error:
        return CheckResult("not known", fine=False, advice=error.args[0].str())


def _describe_topic(connection: Connection, topic: str) -> Any:
    from confluent_kafka import TopicCollection

    if count_partitions(connection, topic) is None:
        raise missing_topic(connection, topic)
    admin = connection.admin()  # a name for it: without one its requests end with it
    asked = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=_PATIENCE
    )
    return asked[topic].result()


def _describe_cluster(connection: Connection) -> Any:
    admin = connection.admin()
    return admin.describe_cluster(include_authorized_operations=True, request_timeout=_PATIENCE).result()


def _read_settings(connection: Connection, topic: str) -> Mapping[str, str]:
    return read_topic_settings(connection, [topic]).get(topic, {})


def _check_brokers(connection: Connection) -> CheckResult:
    brokers = len(_describe_cluster(connection).nodes)
    advice = (
        "" if brokers >= _REPLICAS else f"{_REPLICAS} brokers or more, so that a topic can have {_REPLICAS} replicas"
    )
    return CheckResult(f"{brokers} at {connection.bootstrap_servers}", not advice, advice)


def _check_replication(connection: Connection, topic: str) -> CheckResult:
    partitions = _describe_topic(connection, topic).partitions
    least = min(len(each.replicas) for each in partitions)
    behind = sum(len(each.isr) < len(each.replicas) for each in partitions)
    in_sync = int(_read_settings(connection, topic).get("min.insync.replicas", 0))
    found = f"{len(partitions)} partitions, {least} replicas, min.insync.replicas {in_sync or 'not known'}"
    advice = []
    if least < _REPLICAS:
        advice.append(f"{_REPLICAS} replicas: with {least}, messages can be lost with a broker")
    if in_sync == 1:
        advice.append("min.insync.replicas=2: else one broker alone may have what a producer was told is safe")
    if in_sync > 1 and in_sync == least:
        advice.append(f"min.insync.replicas below {least}: else producers stop with the first broker that does")
    if behind:
        advice.append(f"{behind} partitions have a replica that isn't in sync: look at the brokers")
    return CheckResult(found, not advice, "; ".join(advice))


def _check_retention(connection: Connection, topic: str) -> CheckResult:
    settings = _read_settings(connection, topic)
    if not settings:
        return CheckResult("not known", advice="the right to DESCRIBE_CONFIGS of the topic shows it")
    kept_ms, policy = int(settings["retention.ms"]), settings["cleanup.policy"]
    kept = "for ever" if kept_ms < 0 else f"{kept_ms / 3_600_000:g} h"
    size = int(settings["retention.bytes"])
    found = f"{kept}, {'any size' if size < 0 else f'{size:,} bytes a partition'}, cleanup.policy {policy}"
    advice = []
    if 0 <= kept_ms < _DAY_MS:
        advice.append("retention.ms of a day or more: a run that is down for longer than this misses messages")
    if "compact" in policy:
        advice.append("cleanup.policy=delete: a compacted topic loses messages before they are counted")
    return CheckResult(found, not advice, "; ".join(advice))


def _check_rights(connection: Connection, topic: str) -> CheckResult:
    """By what the brokers say that this user may do. Results need rights to topics that may not be there yet."""
    of_topic, of_cluster = (
        None if each is None else {operation.name for operation in each}
        for each in (
            _describe_topic(connection, topic).authorized_operations,
            _describe_cluster(connection).authorized_operations,
        )
    )
    if of_topic is None or of_cluster is None:
        return CheckResult("not known: the brokers don't tell")
    lacking = {"READ", "DESCRIBE"} - of_topic
    found = f"topic: {', '.join(sorted(of_topic)) or 'none'}; cluster: {', '.join(sorted(of_cluster)) or 'none'}"
    if lacking:
        return CheckResult(found, fine=False, advice=f"{', '.join(sorted(lacking))} of the topic {topic}")
    advice = "" if "CREATE" in of_cluster else "without CREATE, make the result topics, and the right to WRITE to them"
    return CheckResult(found, advice=advice)


def _check_clock(connection: Connection, topic: str) -> CheckResult:
    """By the topic's newest time, because a broker tells its own only in answer to a message."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]  it is public

    asked = {
        TopicPartition(topic, partition): OffsetSpec.max_timestamp()
        for partition in range(count_partitions(connection, topic) or 0)
    }
    admin = connection.admin()
    times = [each.result().timestamp for each in admin.list_offsets(asked, request_timeout=_PATIENCE).values()]
    newest = max(times, default=-1)
    if newest < 0:
        return CheckResult("not known: the topic has no message")
    by = {"LogAppendTime": "a broker's", "CreateTime": "a producer's"}
    whose = by.get(_read_settings(connection, topic).get("message.timestamp.type", ""), "another")
    ahead = newest / 1000 - time.time()
    if ahead > _AHEAD:
        advice = "set this machine's clock, or that one, by NTP"
        return CheckResult(f"{ahead:,.1f} s behind {whose} clock at least", fine=False, advice=advice)
    return CheckResult(f"not behind {whose} clock: the newest message is {-ahead:,.0f} s old")


def _check_checkpoint(address: str) -> CheckResult:
    from unskew.apps.checkpoint.location import configure_location

    location = configure_location(address, {})
    names = location.folder().names()
    state = f"with {len(names)} entries" if names else "empty, or not there yet"
    found = f"{location}, {state}; files are made once {_CREATES[location.scheme]} (not tried: that would write)"
    advice = "a disk that all machines share, or an object store, if this path is on one machine"
    return CheckResult(found, advice=advice if location.scheme == "file" else "")
