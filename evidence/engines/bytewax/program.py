"""All jobs in Bytewax: `fold_window` over tumbling windows, or over sessions.

    python program.py BOOTSTRAP TOPIC OUTPUT FIELD GAP_MS COST_MS COST LATE_MS AIM WORKERS

One process a worker, as a cluster: https://docs.bytewax.io/v0.21.0/guide/concepts/workers-parallelization.html ("Multi-
Process Cluster"). After .../guide/concepts/windowing.html ("Event Time") and the docstrings of ``KafkaSource``,
``EventClock`` (``to_system_utc``), and ``fold_window``: ``ordered=False``, because counts don't depend on the order.

AIM is ``throughput``: it reads to the topic's end (``tail=False``), where all windows close; or ``latency``: it reads
on, and a window closes LATE_MS after its end, also if no later message of its key comes; or ``recovery``: as
``latency``, with a snapshot each second in its folder (.../guide/concepts/recovery.html).
"""

import atexit
import json
import math
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import getitem
from pathlib import Path

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing as win
from distinct import run_cluster

WINDOW_MS = 5_000
EPOCH = datetime.fromtimestamp(0, UTC)


def spend(seconds: float, cost: str) -> None:
    if cost == "sleep":
        time.sleep(seconds)
        return
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def dataflow(
    bootstrap: str, topic: str, output: str, field: str, gap: str, per_message: str, cost: str, late_by: str, aim: str
) -> Dataflow:
    gap_ms, cost_ms, late_ms = int(gap), float(per_message), int(late_by)
    path = field.split(".")

    def keyed_by(message: KafkaSourceMessage) -> tuple[str, int]:
        return str(reduce(getitem, path, json.loads(message.value))), message.timestamp[1]

    done = 0

    def count(window: tuple[int, float], at: int) -> tuple[int, float]:
        nonlocal done
        if cost_ms:
            spend(cost_ms / 1000, cost)
            done += 1
        return window[0] + 1, min(window[1], at)

    def record(counted: tuple[str, tuple[int, tuple[int, int]]]) -> KafkaSinkMessage:
        key, (_, (n, first)) = counted
        start = first if gap_ms else first // WINDOW_MS * WINDOW_MS
        return KafkaSinkMessage(key.encode(), json.dumps({"start": start, "n": n}).encode())

    if cost_ms:
        # Bytewax' own counts are those of a web server that ends with the process, so not all are seen.
        account = Path("account")
        account.mkdir(exist_ok=True)
        atexit.register(lambda: (account / str(os.getpid())).write_text(str(done)))
    tumbling = win.TumblingWindower(timedelta(milliseconds=WINDOW_MS), align_to=EPOCH)
    sessions = win.SessionWindower(timedelta(milliseconds=gap_ms))
    late = timedelta(milliseconds=late_ms)
    # A window closes LATE_MS after its end. By default each key is woken without a pause from the end on
    # (https://github.com/bytewax/bytewax/issues/578).
    clock = win.EventClock(lambda at: datetime.fromtimestamp(at / 1000, UTC), late, to_system_utc=lambda at: at + late)
    flow = Dataflow("counts")
    messages = kop.input("read", flow, brokers=[bootstrap], topics=[topic], tail=aim != "throughput")
    keyed = op.map("key", messages.oks, keyed_by)
    counts = win.fold_window(
        "count",
        keyed,
        clock,
        sessions if gap_ms else tumbling,
        builder=lambda: (0, math.inf),
        folder=count,
        merger=lambda one, other: (one[0] + other[0], min(one[1], other[1])),
        ordered=False,
    )
    # At the topic's end all sessions are written at once, more than the client's queue takes by default.
    room = {"queue.buffering.max.messages": "1000000"}
    kop.output("write", op.map("record", counts.down, record), brokers=[bootstrap], topic=output, add_config=room)
    return flow


def main() -> None:
    *_, aim, workers = sys.argv[1:]
    options: list[str] = []
    if aim == "recovery":
        snapshots = Path("snapshots")
        if not snapshots.exists():
            snapshots.mkdir()
            subprocess.run([sys.executable, "-m", "bytewax.recovery", snapshots, workers], check=True)
        options = ["-r", str(snapshots), "-s", "1", "-b", "0"]
    run_cluster(*sys.argv, options=options)


if __name__ == "__main__":
    main()
