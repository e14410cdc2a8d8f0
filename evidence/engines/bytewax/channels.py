"""NEXMark's query 16 in Bytewax: `stateful_batch`, whose logic has a channel's counts and the ids that it has seen.

    python channels.py BOOTSTRAP TOPIC OUTPUT WORKERS

One process a worker, as a cluster, which reads to the topic's end, as in ``program.py``. After
https://docs.bytewax.io/v0.21.0/guide/concepts/dataflow-programming.html ("Stateful Operators", "State Keys") and the
docstring of ``StatefulBatchLogic``. A channel's row is written again after each of its batches. There is no recovery
store, so states are in memory alone.
"""

import copy
import json
import sys
from collections.abc import Iterable
from typing import Any

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from distinct import run_cluster

RANKS = "total", "rank1", "rank2", "rank3"


class Channel(StatefulBatchLogic):
    """The statistics of a channel and day: of each rank of price the bids, and the ids seen."""

    def __init__(self, state: dict[str, Any] | None) -> None:
        self._state = state or {
            "minute": "",
            "bids": [0] * len(RANKS),
            "bidders": [set() for _ in RANKS],
            "auctions": [set() for _ in RANKS],
        }

    def on_batch(self, values: list[dict[str, Any]]) -> tuple[Iterable[dict[str, Any]], bool]:
        state = self._state
        for bid in values:
            state["minute"] = max(state["minute"], bid["dateTime"][11:16])
            for rank in (0, 1 if bid["price"] < 10_000 else 2 if bid["price"] < 1_000_000 else 3):
                state["bids"][rank] += 1
                state["bidders"][rank].add(bid["bidder"])
                state["auctions"][rank].add(bid["auction"])
        row = {"channel": values[0]["channel"], "day": values[0]["dateTime"][:10], "minute": state["minute"]}
        row |= {f"{name}_bids": n for name, n in zip(RANKS, state["bids"], strict=True)}
        for of in ("bidders", "auctions"):
            row |= {f"{name}_{of}": len(ids) for name, ids in zip(RANKS, state[of], strict=True)}
        return [row], StatefulBatchLogic.RETAIN

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(self._state)


def keyed_by(message: KafkaSourceMessage) -> tuple[str, dict[str, Any]]:
    bid = json.loads(message.value)["bid"]
    return f"{bid['dateTime'][:10]} {bid['channel']}", bid


def record(row: tuple[str, dict[str, Any]]) -> KafkaSinkMessage:
    return KafkaSinkMessage(row[0].encode(), json.dumps(row[1]).encode())


def dataflow(bootstrap: str, topic: str, output: str) -> Dataflow:
    flow = Dataflow("channels")
    messages = kop.input("read", flow, brokers=[bootstrap], topics=[topic], tail=False)
    rows = op.stateful_batch("count", op.map("key", messages.oks, keyed_by), Channel)
    kop.output("write", op.map("record", rows, record), brokers=[bootstrap], topic=output)
    return flow


if __name__ == "__main__":
    run_cluster(*sys.argv)
