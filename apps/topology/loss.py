"""Messages that Kafka has removed (a topic's retention, or its deletion) before they were counted."""

from collections.abc import Mapping

from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets, first_offsets

POLICIES = ("fail", "skip")


def gone(
    connection: Connection, topic: str, start: Mapping[str, int], end: Mapping[str, int] | None = None
) -> dict[int, int]:
    """Partition → how many of its messages from ``start`` on (and before ``end``) the topic no longer has, if any.

    Parameters
    ----------
    connection, topic
        Where.
    start, end : partition → offset
        Where reading goes on, and up to where (exclusive); without ``end``, as far as there is something.

    """
    first, there = first_offsets(connection, topic), end_offsets(connection, topic)
    lost: dict[int, int] = {}
    for name, offset in start.items():
        partition = int(name)
        stop = there[partition] if end is None else end[name]
        if there[partition] < offset:  # another topic of that name: reading goes on from its end
            lost[partition] = there[partition] - first[partition]
        else:
            lost[partition] = min(first[partition], stop) - offset
    return {partition: number for partition, number in sorted(lost.items()) if number > 0}


def complaint(topic: str, lost: Mapping[int, int]) -> str:
    """What to tell of it."""
    where = ", ".join(f"partition {partition}: {number:,}" for partition, number in lost.items())
    return (
        f"topic {topic} no longer has {sum(lost.values()):,} messages that are not counted yet ({where}); "
        "--on-data-loss skip goes on without them"
    )
