"""Queries Kafka's topics, partitions and offsets, and creates missing topics.

Every command imports this module, but few need Kafka's client, so confluent_kafka is imported where it is used.
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

#: The topic with the batch numbers of a checkpoint whose records are written exactly once.
COMMITS_TOPIC = "{topic}-unskew-commits-{id}"
#: The most characters of a source topic's name, to fit in that.
LONGEST_TOPIC = 249 - len(COMMITS_TOPIC.format(topic="", id="0" * 12))  # of Kafka's 249
_PATIENCE = 8.0  # s until a broker counts as unreachable

log = logging.getLogger(__name__)


def require_reachable(connection: Connection) -> None:
    """Check that the cluster answers. Raises ``EnvironmentFault`` if it doesn't answer within eight seconds."""
    _query_metadata(connection)


def list_topics(connection: Connection) -> dict[str, int]:
    """Topic → number of partitions, without Kafka's internal topics.

    Raises ``EnvironmentFault`` if the cluster doesn't answer within eight seconds.
    """
    found = _query_metadata(connection).topics
    return {name: len(found[name].partitions) for name in sorted(found) if not name.startswith("__")}


def missing_topic(connection: Connection, topic: str, remedy: str = "") -> UsageError:
    """The error for a missing topic, with the names of existing ones. Raises as ``list_topics``."""
    there = suggest_names(topic, list_topics(connection))
    return UsageError(f"there is no topic {topic} at {connection.bootstrap_servers}{remedy}{there}")


def count_partitions(connection: Connection, topic: str) -> int | None:
    """The topic's number of partitions, or None if it doesn't exist."""
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
    """Create the topic if it is missing, with Kafka's settings ``config``. Return whether it was created.

    An input topic's partitions are the sources. An existing topic must have so many, unless it may have ``any_number``.
    Raises ``UsageError`` if the topic has another number of partitions, or Kafka refuses its name, partitions or
    settings; ``EnvironmentFault`` if the cluster can't be reached, or refuses to create the topic.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]  it is public

    if partitions < 1:
        raise UsageError(f"topic {name} cannot be made: it needs 1 or more partitions, not {partitions}")
    found = count_partitions(connection, name)
    if found is None:
        admin = connection.admin()  # named, so that it lives until the answer: its requests end with it
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
        _await_visible(connection, name)  # another client was faster, so brokers may not know it yet
        found = count_partitions(connection, name)
    if found != partitions and not any_number:
        raise UsageError(
            f"topic {name} has {found} partitions, not the {partitions} asked for; "
            f"ask for {found}, or use another topic"
        )
    return False


def topic_id(admin: Any, topic: str) -> str | None:
    """The topic's id, which a deleted and recreated topic changes.

    None if the topic doesn't exist, or no broker returns its id. Brokers before 2.8 have no ids.
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
    """Release the client library's (2.16) leaked reference to an id, which a run requests in each batch."""
    from confluent_kafka import Uuid

    like = SimpleNamespace(topic_id=Uuid(0, 0))
    if sys.getrefcount(described.topic_id) == sys.getrefcount(like.topic_id) + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(described.topic_id))


def end_offsets(connection: Connection, topic: str, *, committed: bool | None = None) -> dict[int, int]:
    """Partition → the offset of its end for readers. Not every offset has a message: each transaction's end has one,
    too.

    If readers read only ``committed`` messages, their end is before the first message of an open transaction, and other
    readers' is the offset of the next message. Default: the connection's isolation. Raises ``UsageError`` if there is
    no such topic, and ``EnvironmentFault`` if the cluster can't be reached.
    """
    return _query_offsets(
        connection, topic, "latest", committed=connection.reads_committed if committed is None else committed
    )


def first_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Partition → the offset of the first message that Kafka still has, or an empty partition's end.

    Raises as `end_offsets`.
    """
    return _query_offsets(connection, topic, "earliest", committed=False)


def largest_batches(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Topic → its largest batch of records in bytes. Topics that we may not describe are left out."""
    found = read_topic_settings(connection, names)
    return {topic: int(settings["max.message.bytes"]) for topic, settings in found.items()}


def read_topic_settings(connection: Connection, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Topic → its Kafka settings. Topics that we may not describe are left out."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        ConfigResource,  # pyright: ignore[reportPrivateImportUsage]  it is public
        ResourceType,  # pyright: ignore[reportPrivateImportUsage]
    )

    admin = connection.admin()  # named, as in `ensure_topic`
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
    admin = connection.admin()  # named, as above
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
    """Call ``ask``, which queries partitions' leaders, repeatedly for ``patience`` (s) while they don't lead yet.

    After a topic's creation or a broker's start, leaders are in the metadata before they lead. Raises the
    ``KafkaException`` of ``ask``, if it is another one, or lasts longer.
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
    # A new topic takes time to reach every broker's metadata, and its partitions to get leaders.
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = _query_metadata(connection).topics.get(topic)
        if found and all(partition.leader >= 0 for partition in found.partitions.values()):
            return
        time.sleep(0.05)
