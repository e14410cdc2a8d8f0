"""All benchmarks.

python -m benchmarks              # what there is
python -m benchmarks NAME ...     # runs these, one after the other, as they are without options
python -m benchmarks all          # runs all except those that are marked with a star: three hours
python -m benchmarks.NAME --help  # what one measures, and its options
"""

import argparse
import subprocess
import sys

#: Name → what it measures.
BENCHMARKS = {
    "topology": "tuples/s through the whole topology beside Spark's own groupBy, stages, memory",
    "first": "from the command to the first result, from a kill to the next, and the CPU of an idle stream",
    "fixed": "a batch's fixed cost and a tuple's, fitted from batches of several sizes, beside Spark's own groupBy",
    "latency": "a batch's time and a result's latency on a steady stream, beside Spark's own groupBy",
    "delivery": "tuples/s and a result's latency where results are published exactly once, beside at least once",
    "rivals": "tuples/s, CPU and balance of ours beside repartition, more partitions, salted keys, round robin",
    "splitter": "messages/s that the splitter reads, by their spelling, beside from_json",
    "straggler": "batch time against the ideal when tuples cost time",
    "metrics": "tuples/s with and without metrics, and with an InfluxDB in trouble",
    "nexmark": "how skewed NEXMark's bids are in windows of event time, by auction and by bidder",
    "shufflebench": "how skewed ShuffleBench's tuples are, and how many events it has, by Zipf's exponent",
    "producer": "messages/s published beside confluent-kafka's loop",
    "appetite": "messages/s of each dataset that the topology takes, beside Spark's own groupBy",
    "large_file": "memory of the producer over a file of gigabytes",
    "state": "states per key: CPU a touched key, sessions, and the groupings, beside Spark's own ways and salting",
    "session": "the first batch of keyed_map and those after it, beside Spark's session_window, by session's settings",
    "migration": "latencies of tuples while states of keys move, beside a query that is stopped and started again",
    "works": "µs a tuple and bytes of state of each keyed work, without Spark",
    "reports": "the cost of feedback's reports when workers name only their heaviest keys",
    "planning": "what PLANNED's planner costs: a batch beside BOUNDED_LOAD, and the planner alone with many sources",
    "predict": "the speedup over KEY that `unskew simulate` predicts, beside that of live topologies",
    "routing": "ns a routed tuple and bytes of state, each scheme",
    "balance": "max/mean and workers a key of all schemes on many streams, beside the bound",
    "change": "max/mean of all schemes after a hot key came, was swapped, went",
    "caps": "PLANNED's replicas at caps of 1.02, 1.05 and 1.1, beside BOUNDED_LOAD at equal ones and the fewest",
    "tradeoff": "BOUNDED_LOAD's balance against its replicas by slack, beside known frequencies and bounds",
    "separate": "what sources that know nothing of each other must replicate",
    "counting": "why some streams take more replicas than the bound",
}
#: Those that ``all`` leaves out: a campaign of faults can take hours, other engines are 2 GB to fetch, and the guide
#: replaces grouping/guide.png.
ALONE = {
    "engines": "the same jobs in Flink, Kafka Streams, Storm, Quix, Spark and others, beside ours; fetches them",
    "faults": "whether results stay exact on a cluster whose processes are killed and stopped",
    "guide": "the table and the picture of grouping/README.md: all schemes on two streams, simulated",
}


def main() -> None:
    known = BENCHMARKS | ALONE
    lines = [f"{name:12}{'*' if name in ALONE else ' '} {measures}" for name, measures in known.items()]
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="\n".join(lines), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run, or all; none: list them")
    names = parser.parse_args().names
    if not names:
        print("\n".join(lines))
    if names == ["all"]:
        names = list(BENCHMARKS)
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"unknown benchmark {unknown[0]!r}; valid: all, {', '.join(known)}")
    for name in names:
        print(f"── {name}: {known[name]}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
