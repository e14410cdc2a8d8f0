"""Queries of NEXMark in Bytewax: ``q18`` by `stateful_flat_map`, or ``q5`` by `count_window`.

    python nexmark.py QUERY BOOTSTRAP TOPIC OUTPUT LATE_MS WORKERS

One process a worker, as a cluster, which reads to the topic's end, as in ``program.py``. After the pages that it and
``distinct.py`` name, and the docstrings of ``EventClock``, ``SlidingWindower`` and ``count_window``. For q5 a window's
counts come together by its number, and `stateful_flat_map` keeps the greatest one. It is written again when it has
grown. There is no recovery store, so states are in memory alone.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow, Stream
from bytewax.operators import KeyedStream
from bytewax.operators import windowing as win
from distinct import run_cluster
from program import EPOCH

LENGTH, EVERY = timedelta(seconds=10), timedelta(seconds=2)
Bid = dict[str, Any]
Hot = tuple[int, int]  # bids, auction


def time_of(bid: Bid) -> datetime:
    return datetime.fromisoformat(bid["dateTime"]).replace(tzinfo=UTC)


def later(last: Bid | None, bid: Bid) -> tuple[Bid, list[Bid]]:
    """The key's last bid, and the bid if it is that one. Times are of one format, so they compare as text."""
    if last is not None and bid["dateTime"] < last["dateTime"]:
        return last, []
    return bid, [bid]


def hotter(hottest: Hot | None, hot: Hot) -> tuple[Hot, list[Hot]]:
    """The window's hottest auction, and this one if it is hotter than those before."""
    if hottest is not None and hot < hottest:
        return hottest, []
    return hot, [hot]


def last_bids(bids: Stream[Bid]) -> KeyedStream[Bid]:
    keyed = op.key_on("key", bids, lambda bid: f"{bid['bidder']}/{bid['auction']}")
    return op.stateful_flat_map("last", keyed, later)


def hot_items(bids: Stream[Bid], late_ms: int) -> KeyedStream[dict[str, int]]:
    # Windows close by later bids and at the end. The bids' time is long past, so a key would be woken without a pause.
    clock = win.EventClock(time_of, timedelta(milliseconds=late_ms), to_system_utc=lambda _: None)
    windower = win.SlidingWindower(LENGTH, EVERY, EPOCH)
    counts = win.count_window("count", bids, clock, windower, lambda bid: str(bid["auction"]))

    def of_window(counted: tuple[str, tuple[int, int]]) -> tuple[str, Hot]:
        auction, (window, n) = counted
        return str(window), (n, int(auction))

    def result(hottest: tuple[str, Hot]) -> tuple[str, dict[str, int]]:
        window, (n, auction) = hottest
        return window, {"start": int(window) * int(EVERY.total_seconds() * 1000), "auction": auction, "num": n}

    hottest = op.stateful_flat_map("hottest", op.map("of window", counts.down, of_window), hotter)
    return op.map("result", hottest, result)


def dataflow(query: str, bootstrap: str, topic: str, output: str, late_ms: str) -> Dataflow:
    def parsed(message: KafkaSourceMessage) -> Bid:
        return json.loads(message.value)["bid"]

    def record(result: tuple[str, dict[str, Any]]) -> KafkaSinkMessage:
        return KafkaSinkMessage(result[0].encode(), json.dumps(result[1]).encode())

    flow = Dataflow(query)
    messages = kop.input("read", flow, brokers=[bootstrap], topics=[topic], tail=False)
    bids = op.map("parse", messages.oks, parsed)
    results = last_bids(bids) if query == "q18" else hot_items(bids, int(late_ms))
    kop.output("write", op.map("record", results, record), brokers=[bootstrap], topic=output)
    return flow


if __name__ == "__main__":
    run_cluster(*sys.argv)
