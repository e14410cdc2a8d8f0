"""A clickstream file larger than one wants in memory, published with flat memory.

    python -m evidence.speed.large_file [--gigabytes 5]

A process of its own makes such a file from the generator's clicks; then this process publishes the file into an
embedded broker, and prints its memory on the way. The broker keeps only the last records of the topic, so the disk
needs room for the file and little more.
"""

import argparse
import multiprocessing
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil
import pyarrow.compute as pc

from evidence.tables import make_table, print_table
from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import FORMATS, create_dataset
from unskew.producers.publish import publish_dataset
from unskew.producers.readers.files import FileDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog

NAME, STEPS = "WIKIPEDIA_CLICKSTREAM", 10
JSON = r'^\{"prev":"(.*)","curr":"(.*)","type":"(.*)","n":(.*)\}$'


def write(path, size):
    """A file of about so many bytes in Wikimedia's format."""
    with path.open("wb") as file:
        for block in create_dataset(NAME, scale=1, records=1 << 40).blocks():
            rows = pc.replace_substring_regex(block.messages.cast("string"), JSON, "\\1\t\\2\t\\3\t\\4\n")
            file.write(memoryview(rows.buffers()[2])[: pc.sum(pc.binary_length(rows)).as_py()])
            if file.tell() >= size:
                return


def memory():
    """Resident bytes of this process: now, and the most there ever were."""
    now = psutil.Process().memory_info().rss
    return now, max(now, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # the kernel's own lags a little


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    size = int(parser.parse_args().gigabytes * 1e9)
    table = make_table("read", "records", "memory", "most so far")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "clickstream.tsv"
        # spawned: a fork would share our memory, and its count
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            process.submit(write, path, size).result()
        dataset = FileDataset(NAME, find_inputs([str(path)]), FORMATS[NAME], RejectLog())

        def progress(records, _, seen=[0]):  # noqa: B006  the default keeps the steps that were printed
            if dataset.consumed >= seen[0] * dataset.size / STEPS:
                seen[0] += 1
                now, most = memory()
                row = (f"{dataset.consumed / 1e9:.2f} GB", f"{records:,}", f"{now >> 20} MiB", f"{most >> 20} MiB")
                print(*row, flush=True)
                table.add_row(*row)

        with Broker(Path(directory) / "broker", properties={"log.retention.check.interval.ms": "5000"}) as broker:
            connection = Connection(broker.bootstrap_servers)
            ensure_topic(connection, "large", 5, {"retention.bytes": "10000000", "segment.bytes": "10000000"})
            summary = publish_dataset(connection, "large", dataset, progress=progress)
    print_table(table)
    print_table(summary.table())


if __name__ == "__main__":
    main()
