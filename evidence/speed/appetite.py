"""How many messages a second the whole topology takes of each dataset, beside Spark's own groupBy from the same topic.

    python -m evidence.speed.appetite [DATASET ...] [--records N] [--repeats N]

As in ``evidence.speed.topology``: x0, one broker, one Spark on all cores, the first batch of a run not counted, the
median of runs in turns; here with PARTIAL_KEY only. Beside messages the table has tuples, of which a tweet has several.
A producer has to keep up with this. The groupBy parses JSON with ``from_json``, as a user would.
"""

import argparse
import statistics
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from evidence.speed.measuring import in_turns, open_bench, ours, rate, records_option, spread
from evidence.speed.native import native
from evidence.tables import make_table, print_table
from unskew.apps.driver.session import open_session
from unskew.apps.settings import Settings
from unskew.producers.datasets.registry import DATASETS

GROUPING = "PARTIAL_KEY"
DEFAULT = ["COUNTRY_SKEW_R80", *(name for name in DATASETS if name.startswith(("TWITTER", "WIKIPEDIA"))), "ZIPF"]


def topology(spark: SparkSession, run: Settings, repeat: int) -> float:
    """Messages/s of ours."""
    return rate(ours(spark, replace(run, checkpoint=f"{run.checkpoint}-{repeat}")))


def group_by(spark: SparkSession, run: Settings, records: int, repeat: int) -> float:
    """Messages/s of Spark's own groupBy."""
    return rate(native(spark, replace(run, checkpoint=f"{run.checkpoint}-native-{repeat}"), records, parse=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DEFAULT, metavar="DATASET")
    records_option(parser, 8_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    heads = "dataset", "topology: messages/s", "tuples/s", "lowest", "highest", "groupBy, from_json: messages/s"
    table = make_table(*heads)
    with open_bench() as bench, open_session(bench.settings(GROUPING, "first"), [GROUPING]) as spark:
        for name in arguments.datasets:
            loaded = bench.publish(name, name, records=arguments.records)
            run = bench.settings(GROUPING, name, source_type=name, topic=name)
            runs = {
                "topology": partial(topology, spark, run),
                "groupBy": partial(group_by, spark, run, loaded.records),
            }
            rates = in_turns(runs, arguments.repeats, lambda one: f"{one:,.0f} messages/s")
            each, mine = loaded.keys.total / loaded.records, rates["topology"]
            row = [f"{statistics.median(mine):,.0f}", *spread([each * one for one in mine])]
            row.append(f"{statistics.median(rates['groupBy']):,.0f}")
            print(name, *row, flush=True)
            table.add_row(name, *row)
    print_table(table)


if __name__ == "__main__":
    main()
