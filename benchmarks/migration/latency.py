"""How long tuples took, from their time in Kafka to that of the result in which they are the last of their key."""

from collections.abc import Mapping, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.measuring import messages
from unskew.deploy.client.connection import Connection

BIN = 250  # ms


def latencies(
    connection: Connection, topic: str, start: Mapping[int, int], results: Sequence[str]
) -> NDArray[np.float64]:
    """Of each tuple since these offsets that has a result: its time and the result's after it, float64[n, 2], ms."""
    came = {(each.partition(), each.offset()): each.timestamp()[1] for each in messages(connection, topic, start)}
    sources = len(start)
    found: list[tuple[int, int]] = []
    for name in results:
        for message in messages(connection, name):
            said = orjson.loads(message.value() or b"")
            place = int(said["tags"]["key"]) % sources, int(said["fields"]["max"])
            if place in came:
                found.append((came[place], message.timestamp()[1] - came[place]))
    return np.array(sorted(found), np.float64).reshape(-1, 2)


def binned(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """By each 250 ms of the stream: when it began (ms), how many tuples, their p50, p99 and maximum: float64[b, 5]."""
    start = found[:, 0] // BIN * BIN
    rows = []
    for at in np.unique(start):
        here = found[start == at, 1]
        rows.append([at, len(here), *np.percentile(here, [50, 99]), here.max()])
    return np.array(rows).reshape(-1, 5)
