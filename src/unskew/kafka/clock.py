"""Reads the clock of Kafka's brokers from a message whose time a broker sets."""

import logging
from typing import Any

from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic

_PATIENCE = 8.0  # s
_SETTINGS = {"delivery.timeout.ms": round(1000 * _PATIENCE), "log_level": 0, "error_cb": lambda _: None}
_TOPIC = {"message.timestamp.type": "LogAppendTime", "retention.ms": "3600000"}

log = logging.getLogger(__name__)


def broker_time(connection: Connection, topic: str) -> int | None:
    """The time of a broker's clock (ms since the epoch), from a message sent to it.

    A missing topic is created such that brokers set its messages' times. None: we may not create the topic or write to
    it, or producers set its messages' times.
    """
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Producer

    times: list[int] = []

    def on_delivery(error: Any, message: Any) -> None:
        kind, ms = message.timestamp()
        if error is None and kind == TIMESTAMP_LOG_APPEND_TIME:
            times.append(ms)

    try:
        ensure_topic(connection, topic, 1, _TOPIC, any_number=True)
        producer = Producer(connection.client(**_SETTINGS))
        producer.produce(topic, b"", on_delivery=on_delivery)
        producer.flush(_PATIENCE)
    except (EnvironmentFault, UsageError, KafkaException) as error:
        log.info("the brokers' time is not known: %s", error)
    return times[0] if times else None
