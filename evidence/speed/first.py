"""From the command to the first result, from a kill to the next one, and what an idle stream costs.

    python -m evidence.speed.first [--rounds N] [--idle SECONDS] [--rate N] [--grouping NAME]

Beside Spark's own groupBy(window, key).count() into Kafka, as it comes and with our settings (the contestants of
`evidence.speed.latency`), each with a fresh process and JVM, in turns. Messages come at the rate from before the start
on. *First*: from the process' start to the time of its first record in Kafka, the first window's wait included, and the
CPU until then. *After a kill*: the same after SIGKILL of all its processes, from the checkpoint. *Idle*: after the last
message's windows are published, CPU in % of a core.
"""

import argparse
import multiprocessing
import statistics
import time
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from evidence.speed.latency import CONTESTANTS, choose_run, compete
from evidence.speed.measuring import in_turns, keep_publishing, open_bench
from evidence.speed.processes import end, spent
from evidence.tables import make_table, print_table
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.settings import Settings
from unskew.kafka.topics import end_offsets, ensure_topic

_PATIENCE = 300.0  # s for a result
_QUIET = 15.0  # s without a result before a stream counts as idle


def started(name: str, run: Settings) -> tuple[int, float, float]:
    """Start a contestant and wait for its next result: its process' number, the seconds until then, the CPU seconds."""
    topic = list_result_topics(run)["aggregator"]
    before = end_offsets(run.connection, topic)
    # Not a daemon: it has children of its own.
    process = multiprocessing.get_context("spawn").Process(target=compete, args=(name, run, _Silent()))
    begun = time.time()
    process.start()
    assert process.pid is not None
    consumer = Consumer(run.connection.client(**{"group.id": "bench", "enable.auto.commit": False}))
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in before.items()])
    message = consumer.poll(_PATIENCE)
    consumer.close()
    assert message is not None, f"{name} had no result within {_PATIENCE:.0f} s"
    return process.pid, message.timestamp()[1] / 1000 - begun, spent(process.pid)


class _Silent:
    """A pipe's end that sends nothing: here nobody receives."""

    def send(self, _: object) -> None: ...


def measure(name: str, run: Settings, rate: float, idle: float) -> dict[str, float]:
    """Run a contestant beside its producer, kill it, start it again, and let it run idle: figures by their names."""
    for topic in (run.topic, list_result_topics(run)["aggregator"]):
        ensure_topic(run.connection, topic, run.sources)
    found: dict[str, float] = {}
    pid = None
    try:
        with keep_publishing(run, rate):
            for start in ("first result", "after a kill"):
                if pid is not None:
                    end(pid)
                pid, found[f"{start}, s"], found[f"{start}, CPU s"] = started(name, run)
        found["idle, % of a core"] = 100 * idling(run, pid, idle)
    finally:
        if pid is not None:
            end(pid)
    return found


def idling(run: Settings, pid: int, seconds: float) -> float:
    """CPU seconds a second over so many seconds, once no more results come."""
    topic = list_result_topics(run)["aggregator"]
    ends, since = end_offsets(run.connection, topic), time.monotonic()
    while time.monotonic() - since < _QUIET:
        time.sleep(1.0)
        if (now := end_offsets(run.connection, topic)) != ends:
            ends, since = now, time.monotonic()
    before, begun = spent(pid), time.monotonic()
    time.sleep(seconds)
    return (spent(pid) - before) / (time.monotonic() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=60.0, help="for how long an idle stream is watched, s")
    parser.add_argument("--rate", type=float, default=10_000, help="tuples/s")
    parser.add_argument("--grouping", default="PARTIAL_KEY", help="of ours")
    arguments = parser.parse_args()
    with open_bench() as bench:

        def one(name: str, number: int) -> dict[str, float]:
            run = choose_run(bench, name, str(number), arguments.grouping, run_time=3600.0)
            return measure(*run, arguments.rate, arguments.idle)

        contestants = {name: partial(one, name) for name in CONTESTANTS}
        found = in_turns(contestants, arguments.rounds, lambda each: ", ".join(f"{k} {v:.1f}" for k, v in each.items()))
    table = make_table(f"median of {arguments.rounds}", *CONTESTANTS, "ours / native")
    for figure in found["ours"][0]:
        medians = {name: statistics.median(each[figure] for each in rounds) for name, rounds in found.items()}
        ratio = medians["ours"] / medians["native"]
        table.add_row(figure, *(f"{median:.1f}" for median in medians.values()), f"{ratio:.2f}")
    print_table(table)


if __name__ == "__main__":
    main()
