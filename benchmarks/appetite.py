"""How many messages a second the whole topology takes of each dataset, beside Spark's own groupBy from the same topic.

    python -m benchmarks.appetite [DATASET ...] [--records N] [--repeats N]

As in ``benchmarks.topology``: x0, one broker, one Spark on all cores, the first batch of a run not counted, the median
over the repeats, which alternate; here with PARTIAL_KEY only. Beside it tuples, of which a tweet has several. This is
what a producer has to keep up with. The groupBy parses JSON as one would write it, ``from_json``.
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.topology import SOURCES, native, ours, rate, records_option, settings
from unskew.apps.run.session import session
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.producers.publish import publish
from unskew.producers.registry import DATASETS, create

GROUPING = "PARTIAL_KEY"
DEFAULT = ["COUNTRY_SKEW_R80", *(name for name in DATASETS if name.startswith(("TWITTER", "WIKIPEDIA"))), "ZIPF"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DEFAULT, metavar="DATASET")
    records_option(parser, 8_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    table = Table("dataset", box=MARKDOWN)
    for column in ("topology: messages/s", "tuples/s", "lowest", "highest", "groupBy, from_json: messages/s"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        with session(settings(connection, GROUPING, Path(folder) / "first"), [GROUPING]) as spark:
            for name in arguments.datasets:
                ensure_topic(connection, name, SOURCES)
                loaded = publish(connection, name, create(name, records=arguments.records))
                mine, theirs = [], []
                for repeat in range(arguments.repeats):
                    run = settings(connection, GROUPING, Path(folder) / f"{name}-{repeat}")
                    run = replace(run, source_type=name, source_name=name)
                    mine.append(rate(ours(spark, run)))
                    run = replace(run, checkpoint=f"{run.checkpoint}-native")
                    theirs.append(rate(native(spark, run, loaded.records, parse=True)))
                each = loaded.keys.total / loaded.records
                middle = statistics.median(mine)
                figures = (middle, middle * each, min(mine) * each, max(mine) * each, statistics.median(theirs))
                row = [f"{figure:,.0f}" for figure in figures]
                print(name, *row, flush=True)
                table.add_row(name, *row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
