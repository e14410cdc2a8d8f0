"""Kafka's topics: their partitions and offsets. A missing topic can be made.

Every command imports this module, and few need Kafka's client. So confluent_kafka is imported where it is used.
"""

import ctypes
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

from unskew.errors import EnvironmentFault, UsageError, suggest_names
from unskew.kafka.connection import Connection

T = TypeVar("T")

#: The topic with the numbers of the batches of a checkpoint whose records are written exactly once.
COMMITS_TOPIC = "{topic}-unskew-commits-{id}"
#: Characters of the longest name that such a topic may have.
LONGEST_TOPIC = 249 - len(COMMITS_TOPIC.format(topic="", id="0" * 12))  # of Kafka's 249
_PATIENCE = 8.0  # seconds until a broker counts as unreachable

log = logging.getLogger(__name__)


def require_reachable(connection: Connection) -> None:
    """Check that the cluster answers.

    Raises
    ------
    EnvironmentFault
        If it doesn't answer within eight seconds.
    """
    _query_metadata(connection)


def list_topics(connection: Connection) -> dict[str, int]:
    """Each topic's number of partitions, by name. Kafka's internal topics are left out.

    Raises
    ------
    EnvironmentFault
        If the cluster doesn't answer within eight seconds.
    """
    found = _query_metadata(connection).topics
    return {name: len(found[name].partitions) for name in sorted(found) if not name.startswith("__")}


def missing_topic(connection: Connection, topic: str, remedy: str = "") -> UsageError:
    """The error that there is no such topic, with the names of those that there are. Raises as ``list_topics``."""
    there = suggest_names(topic, list_topics(connection))
    return UsageError(f"there is no topic {topic} at {connection.bootstrap_servers}{remedy}{there}")


def count_partitions(connection: Connection, topic: str) -> int | None:
    """The topic's number of partitions. None if there is no such topic."""
    found = _query_metadata(connection).topics.get(topic)
    return len(found.partitions) if found else None


def ensure_topic(
    connection: Connection,
    name: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    *,
    any_number: bool = False,
) -> bool:
    """Make the topic if it is missing.

    Parameters
    ----------
    connection
        The cluster.
    name, partitions
        The topic, and the number of partitions that it must have. For an input topic these are its sources.
    config
        Kafka's settings for the topic, if it is made now.
    any_number
        Whether an existing topic may have any number of partitions. It is then left as it is.

    Returns
    -------
    bool
        Whether the topic was made.

    Raises
    ------
    UsageError
        If the topic has another number of partitions, or Kafka refuses its name, partitions or settings.
    EnvironmentFault
        If the cluster can't be reached, or doesn't let us make the topic.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]  it is public

    if partitions < 1:
        raise UsageError(f"topic {name} cannot be made: it needs 1 or more partitions, not {partitions}")
    found = count_partitions(connection, name)
    if found is None:
        admin = connection.admin()  # a name for it until the answer is here: without one its requests end with it
        request = NewTopic(name, partitions, config=dict(config or {}))  # with the cluster's default replication
        try:
            admin.create_topics([request], operation_timeout=_PATIENCE)[name].result()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                wrong = {KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS}
                kind = UsageError if reason.code() in wrong else EnvironmentFault
                raise kind(f"topic {name} cannot be made: {reason.str()}") from error
        else:
            _await_visible(connection, name)
            return True
        _await_visible(connection, name)  # another client was faster: no broker need know of it yet
        found = count_partitions(connection, name)
    if found != partitions and not any_number:
        raise UsageError(
            f"topic {name} has {found} partitions, not the {partitions} asked for; "
            f"ask for {found}, or use another topic"
        )
    return False


def topic_id(admin: Any, topic: str) -> str | None:
    """The id that the topic got when it was made. A topic that is deleted and made again has another id.

    None if there is no such topic, or no broker gives its id now. Brokers before 2.8 have no ids.
    """
    from confluent_kafka import KafkaException, TopicCollection

    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=_PATIENCE)[topic].result()
    except KafkaException as error:
        log.info("no id of topic %s: %s", topic, error)
        return None
    _release_id(described)
    found = described.topic_id
    ids = found.get_most_significant_bits(), found.get_least_significant_bits()
    return str(found) if any(ids) else None  # brokers before 2.8 have none


def _release_id(described: Any) -> None:
    """Give back the reference too many that the client library (2.16) keeps of an id, as a run asks in each batch."""
    from confluent_kafka import Uuid

    like = SimpleNamespace(topic_id=Uuid(0, 0))
    if sys.getrefcount(described.topic_id) == sys.getrefcount(like.topic_id) + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(described.topic_id))


def end_offsets(connection: Connection, topic: str, *, committed: bool | None = None) -> dict[int, int]:
    """Partition → the offset at which its readers come to the end.

    Not every offset has a message: the end of each transaction has one too.

    Parameters
    ----------
    connection, topic
        The topic, and how to reach it.
    committed
        Whether the readers read committed messages only. Their end is before the first message of a transaction that is
        still open. The end of other readers is the offset of the next message. Default: the connection's isolation.

    Raises
    ------
    UsageError
        If there is no such topic.
    EnvironmentFault
        If the cluster can't be reached.
    """
    return _query_offsets(
        connection, topic, "latest", committed=connection.reads_committed if committed is None else committed
    )


def first_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Partition → the offset of the first message that Kafka still has. For an empty partition it is the end.

    Raises as `end_offsets` does.
    """
    return _query_offsets(connection, topic, "earliest", committed=False)


def largest_batches(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Topic → the largest batch of records that it takes, in bytes. Topics that we may not ask about are left out."""
    found = read_topic_settings(connection, names)
    return {topic: int(settings["max.message.bytes"]) for topic, settings in found.items()}


def read_topic_settings(connection: Connection, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Topic → Kafka's settings of it. Topics that we may not ask about are left out."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        ConfigResource,  # pyright: ignore[reportPrivateImportUsage]  it is public
        ResourceType,  # pyright: ignore[reportPrivateImportUsage]
    )

    admin = connection.admin()  # a name for it, as in `ensure_topic`
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str]] = {}
    for resource, answer in admin.describe_configs(asked, request_timeout=_PATIENCE).items():
        try:
            found[resource.name] = {name: each.value for name, each in answer.result().items()}
        except KafkaException as error:
            log.info("the settings of topic %s are not known: %s", resource.name, error)
    return found


def _query_offsets(
    connection: Connection, topic: str, which: Literal["earliest", "latest"], *, committed: bool
) -> dict[int, int]:
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]  it is public

    partitions = count_partitions(connection, topic)
    if partitions is None:
        raise missing_topic(connection, topic)
    spec = OffsetSpec.latest() if which == "latest" else OffsetSpec.earliest()
    wanted = {TopicPartition(topic, partition): spec for partition in range(partitions)}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    admin = connection.admin()  # a name for it, as above
    try:
        found = await_leaders(
            lambda: {
                partition.partition: offset.result()
                for partition, offset in admin.list_offsets(
                    wanted, isolation_level=level, request_timeout=_PATIENCE
                ).items()
            },
            _PATIENCE,
        )
    except KafkaException as error:
        raise _unreachable_error(connection, error.args[0].str()) from error
    return {partition: result.offset for partition, result in found.items()}


def await_leaders(ask: Callable[[], T], patience: float) -> T:
    """What ``ask`` returns. It is called again while partitions' leaders don't lead yet.

    A new topic's leaders are in the metadata a moment before they lead. So are those after a broker's start.

    Parameters
    ----------
    ask : callable
        Asks the leaders. It raises `KafkaException` where one doesn't answer.
    patience : float
        For how long it is called again (s).

    Raises
    ------
    KafkaException
        What ``ask`` has raised, if it is something else, or is still raised after that time.

    """
    from confluent_kafka import KafkaError, KafkaException

    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except KafkaException as error:
            soon = error.args[0].code() in (
                KafkaError.NOT_LEADER_FOR_PARTITION,
                KafkaError.LEADER_NOT_AVAILABLE,
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError.UNKNOWN_LEADER_EPOCH,
            )
            if not soon or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _query_metadata(connection: Connection) -> Any:
    from confluent_kafka import KafkaException

    causes: list[str] = []
    admin = connection.admin(error_cb=lambda error: causes.append(error.str()))
    try:
        return admin.list_topics(timeout=_PATIENCE)
    except KafkaException as error:
        admin.poll(0)
        raise _unreachable_error(connection, (causes or [error.args[0].str()])[0]) from error


def _unreachable_error(connection: Connection, reason: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"no Kafka broker answers at {connection.bootstrap_servers} ({reason}); "
        "is it running, and are --bootstrap-servers and --kafka-config right?"
    )


def _await_visible(connection: Connection, topic: str) -> None:
    # A new topic takes a moment to reach every broker's metadata, and its partitions to get their leaders.
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = _query_metadata(connection).topics.get(topic)
        if found and all(partition.leader >= 0 for partition in found.partitions.values()):
            return
        time.sleep(0.05)
