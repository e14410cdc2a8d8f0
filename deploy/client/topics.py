"""Kafka topics as the project needs them: made when missing, with the number of partitions asked for."""

import time
from collections.abc import Mapping
from typing import Any, Literal

from unskew.deploy.client.connection import Connection
from unskew.errors import EnvironmentFault, UsageError

_PATIENCE = 8.0  # seconds until a broker counts as unreachable


def require_reachable(connection: Connection) -> None:
    """Ask the cluster for anything.

    Raises
    ------
    EnvironmentFault
        If it doesn't answer within eight seconds.
    """
    _metadata(connection)


def topics(connection: Connection) -> dict[str, int]:
    """Each topic's number of partitions, by name; Kafka's internal ones left out.

    Raises
    ------
    EnvironmentFault
        If the cluster doesn't answer within eight seconds.
    """
    found = _metadata(connection).topics
    return {name: len(found[name].partitions) for name in sorted(found) if not name.startswith("__")}


def partitions_of(connection: Connection, topic: str) -> int | None:
    """The topic's number of partitions; None if there is no such topic."""
    found = _metadata(connection).topics.get(topic)
    return len(found.partitions) if found else None


def ensure_topic(connection: Connection, name: str, partitions: int, config: Mapping[str, str] | None = None) -> bool:
    """Make the topic if it is missing.

    Parameters
    ----------
    connection
        The cluster.
    name, partitions
        The topic, and how many partitions it has to have (for an input topic: its sources).
    config
        Kafka's settings of a topic, used only if it is made now.

    Returns
    -------
    bool
        Whether it was made.

    Raises
    ------
    UsageError
        If it exists with another number of partitions, or Kafka refuses its name, partitions or settings.
    EnvironmentFault
        If the cluster can't be reached or may not be asked.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]  it is public

    if partitions < 1:
        raise UsageError(f"topic {name} cannot be made: it needs 1 or more partitions, not {partitions}")
    found = partitions_of(connection, name)
    if found is None:
        admin = _admin(connection)  # held until the answer is here: a client that is dropped takes its requests along
        request = NewTopic(name, partitions, config=dict(config or {}))  # replication as the cluster's default
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
        found = partitions_of(connection, name)  # somebody was faster
    if found != partitions:
        raise UsageError(
            f"topic {name} has {found} partitions, not the {partitions} asked for; "
            f"ask for {found}, or use another topic"
        )
    return False


def end_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Partition → the offset that its next message will get.

    Raises
    ------
    UsageError
        If there is no such topic.
    EnvironmentFault
        If the cluster can't be reached.
    """
    return _offsets(connection, topic, "latest")


def first_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Partition → the offset of its first message that is still there; the end of an empty one.

    Raises
    ------
    UsageError
        If there is no such topic.
    EnvironmentFault
        If the cluster can't be reached.
    """
    return _offsets(connection, topic, "earliest")


def _offsets(connection: Connection, topic: str, which: Literal["earliest", "latest"]) -> dict[int, int]:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]  it is public

    partitions = partitions_of(connection, topic)
    if partitions is None:
        raise UsageError(f"there is no topic {topic} at {connection.bootstrap_servers}")
    spec = OffsetSpec.latest() if which == "latest" else OffsetSpec.earliest()
    asked = {TopicPartition(topic, partition): spec for partition in range(partitions)}
    admin = _admin(connection)  # held, as above
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            answers = admin.list_offsets(asked, request_timeout=_PATIENCE)
            return {where.partition: answer.result().offset for where, answer in answers.items()}
        except KafkaException as error:
            # A new topic's leaders are known a moment before they know of it themselves.
            elected = error.args[0].code() not in (
                KafkaError.NOT_LEADER_FOR_PARTITION,
                KafkaError.LEADER_NOT_AVAILABLE,
                KafkaError.UNKNOWN_TOPIC_OR_PART,
            )
            if elected or time.monotonic() > deadline:
                raise _unreachable(connection, error.args[0].str()) from error
            time.sleep(0.05)


def _admin(connection: Connection) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient(connection.client(log_level=0))  # its complaints are our messages


def _metadata(connection: Connection) -> Any:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    complaints: list[str] = []
    admin = AdminClient(connection.client(log_level=0, error_cb=lambda error: complaints.append(error.str())))
    try:
        return admin.list_topics(timeout=_PATIENCE)
    except KafkaException as error:
        admin.poll(0)
        raise _unreachable(connection, (complaints or [error.args[0].str()])[0]) from error


def _unreachable(connection: Connection, reason: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"no Kafka broker answers at {connection.bootstrap_servers} ({reason}); "
        "is it running, and are --bootstrap-servers and --kafka-config right?"
    )


def _await_visible(connection: Connection, topic: str) -> None:
    # A new topic takes a moment to reach every broker's metadata, and its partitions to get their leaders.
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = _metadata(connection).topics.get(topic)
        if found and all(partition.leader >= 0 for partition in found.partitions.values()):
            return
        time.sleep(0.05)
