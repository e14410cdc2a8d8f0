"""The keys of a Kafka topic, as far as it is filled now."""

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from unskew.deploy.client.connection import Connection
from unskew.errors import EnvironmentFault, UsageError

_PATIENCE = 10.0  # s


def records(topic: str, field: str | None, tuples: int, connection: Connection) -> tuple[pa.Array, NDArray[np.int64]]:
    """At most ``tuples`` keys in the order of their timestamps, and these (ms).

    The key is a field of the JSON message, or without ``field`` the message's own key.

    Raises
    ------
    UsageError
        There is no such topic, or none of its messages has that field.
    EnvironmentFault
        Kafka doesn't answer.

    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        connection.client(**{
            "group.id": "unskew-simulate", "enable.auto.commit": False, "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
        })
    )  # fmt: skip
    try:
        metadata = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic]
        if metadata.error is not None:
            raise UsageError(f"topic {topic!r}: {metadata.error.str()}")
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in metadata.partitions])
        keys, times = _read(consumer, field, tuples, len(metadata.partitions))
    except KafkaException as error:
        raise EnvironmentFault(f"Kafka at {connection.bootstrap_servers}: {error.args[0].str()}") from None
    finally:
        consumer.close()
    if keys and all(key is None for key in keys):
        missing = f"field {field!r}" if field else "key; name a field of the JSON messages: kafka:TOPIC:FIELD"
        raise UsageError(f"no message of topic {topic!r} has a {missing}")
    stamps = np.array(times, np.int64)
    order = np.argsort(stamps, kind="stable")
    return pa.array(keys).take(pa.array(order)), stamps[order]


def _read(consumer: Any, field: str | None, tuples: int, unfinished: int) -> tuple[list[Any], list[int]]:
    """Read until ``tuples`` are there or all ``unfinished`` partitions are at their end."""
    from confluent_kafka import KafkaError

    keys: list[Any] = []
    times: list[int] = []
    while unfinished and len(keys) < tuples:
        messages = consumer.consume(min(10_000, tuples - len(keys)), timeout=_PATIENCE)
        if not messages:
            raise EnvironmentFault(f"Kafka sent nothing for {_PATIENCE:g} s; is the broker well?")
        for message in messages:
            error = message.error()
            if error is None:
                keys.append(message.key() if field is None else _field(message.value(), field))
                times.append(message.timestamp()[1])
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that's where the client has it
                unfinished -= 1
            else:
                raise EnvironmentFault(f"Kafka: {error.str()}")
    return keys, times


def _field(value: bytes | None, field: str) -> str | None:
    try:
        found = orjson.loads(value or b"null")
    except orjson.JSONDecodeError:
        return None
    key = found.get(field) if isinstance(found, dict) else None
    return None if key is None else str(key)
