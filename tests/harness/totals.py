"""A consumer of running totals, and what it holds a topology to."""

from collections import Counter, defaultdict
from typing import Any

import orjson

from unskew.apps.aggregator.changes import CLOSED
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import count_partitions


def read_by_partition(connection: Connection, topic: str) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {n: [] for n in range(count_partitions(connection, topic) or 0)}
    with TopicReader(connection, topic) as reader:
        for message in reader.to_end():
            value = orjson.loads(message.value() or b"null")
            found[message.partition() or 0].append(value | {"kafkaKey": (message.key() or b"").decode()})
    return found


def consume_totals(connection: Connection, topic: str) -> Counter[tuple[str, str]]:
    """(window, key) → what a consumer has that keeps the newest record of each Kafka key.

    It checks what the marks promise: no newer total follows them, each partition has them, and they have the sums.
    """
    newest: dict[str, dict[str, Any]] = {}
    marks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    partitions = read_by_partition(connection, topic)
    for stream in partitions.values():
        closed: dict[str, tuple[int, int]] = {}
        for value in stream:
            batch, window = (value["batch"]["generation"], value["batch"]["number"]), value["tags"]["window"]
            if value["kafkaKey"] == window:
                assert value["key"] == CLOSED
                closed.setdefault(window, batch)
                marks[window].append(value)
                continue
            assert batch <= closed.get(window, batch), "a newer total follows the window's mark"
            before = newest.get(value["kafkaKey"])
            if before is None or batch >= (before["batch"]["generation"], before["batch"]["number"]):
                assert before is None or value["fields"]["tuples"] >= before["fields"]["tuples"]
                newest[value["kafkaKey"]] = value
    for window, found in marks.items():
        assert len(found) >= len(partitions), "each partition has the mark"
        totals = [value["fields"] for value in newest.values() if value["tags"]["window"] == window]
        sums = {"keys": len(totals)} | {name: sum(each[name] for each in totals) for name in ("tuples", "count")}
        assert all(mark["fields"] == sums for mark in found)
    assert marks.keys() == {value["tags"]["window"] for value in newest.values()}, "each window is closed"
    return Counter({(value["tags"]["window"], value["key"]): value["fields"]["count"] for value in newest.values()})
