"""How fast datasets are published, beside the plain per-message loop of confluent-kafka in the same run.

    python -m evidence.speed.producer [DATASET ...] [--records N] [--repeats N]

Both use the same settings and an embedded broker. The producer's process has one core to itself and the broker the
others, where the machine allows that. The loop is given its messages ready made; ours draws and renders them within
the time. They run in turns; of each the table has the median, and the ratios are those of the medians. Messages per CPU
second are what a core gives that nobody else uses; they hardly depend on what else the machine does.
"""

import argparse
import os
import statistics
import time

import psutil
from confluent_kafka import Producer

from evidence.speed.measuring import in_turns, open_bench
from evidence.tables import make_table, print_table
from unskew.kafka.outbox import SETTINGS, Outbox
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import KINDS, create_dataset
from unskew.producers.publish import publish_dataset

PARTITIONS = 5
DEFAULT = [*KINDS, "COUNTRY_HALF_SKEW_R80"]


def ours(connection, topic, dataset):
    """Seconds, CPU seconds and bytes of ``publish_dataset``."""
    cpu = time.process_time()
    summary = publish_dataset(connection, topic, dataset)
    return summary.seconds, time.process_time() - cpu, summary.size


def loop(connection, topic, values):
    """Seconds and CPU seconds of the loop in confluent-kafka's documentation, which counts failures as ours does."""
    failed = []
    producer = Producer({**SETTINGS, **connection.client(**Outbox.settings)})
    producer.list_topics(topic, timeout=10)
    begun, cpu = time.monotonic(), time.process_time()
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    assert not failed
    return time.monotonic() - begun, time.process_time() - cpu


def measure(connection, name, records, repeats):
    """Medians (seconds and CPU seconds, of ours and of the loop) and the bytes of one dataset."""
    dataset = create_dataset(name, records=records)
    values = [value for block in dataset.blocks() for value in block.messages.to_pylist()]

    def topic(which, repeat):
        # the broker need not keep what nobody reads
        ensure_topic(connection, f"{name}-{which}-{repeat}", PARTITIONS, {"retention.bytes": "1000000"})
        return f"{name}-{which}-{repeat}"

    runs = {
        "ours": lambda repeat: ours(connection, topic("ours", repeat), dataset),
        "loop": lambda repeat: loop(connection, topic("loop", repeat), values),
    }
    found = in_turns(runs, repeats)
    mine, cpu, size = map(statistics.median, zip(*found["ours"], strict=True))
    return mine, cpu, *map(statistics.median, zip(*found["loop"], strict=True)), size


def pin(broker):
    """Give this process one core, and the broker the others; False: this machine can't."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) < 2:
        return False
    for thread in psutil.Process(broker.pid).threads():
        os.sched_setaffinity(thread.id, cores[1:])
    os.sched_setaffinity(0, cores[:1])
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DEFAULT, metavar="DATASET")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with open_bench() as bench:
        pinned = pin(bench.broker)
        heads = "dataset", "messages/s", "MB/s", "per CPU s", "loop: messages/s", "per CPU s", "ratio", "CPU ratio"
        table = make_table(*heads)
        for name in arguments.datasets:
            mine, cpu, plain, plain_cpu, size = measure(bench.connection, name, arguments.records, arguments.repeats)
            row = (
                f"{arguments.records / mine:,.0f}",
                f"{size / mine / 1e6:,.1f}",
                f"{arguments.records / cpu:,.0f}",
                f"{arguments.records / plain:,.0f}",
                f"{arguments.records / plain_cpu:,.0f}",
                f"{plain / mine:.2f}",
                f"{plain_cpu / cpu:.2f}",
            )
            table.add_row(name, *row)
            print(name, *row, flush=True)
    print_table(table)
    print(f"{arguments.records:,} records, {PARTITIONS} partitions, median of {arguments.repeats}", end="")
    print(", producer on one core" if pinned else ", producer and broker share the cores")


if __name__ == "__main__":
    main()
