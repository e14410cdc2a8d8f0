"""All programs that measure, by the folder of the page that shows their figures.

python -m evidence              # what there is
python -m evidence NAME ...     # runs these, one after the other, as they are without options
python -m evidence all          # runs all except those that are marked with a star: three hours
python -m evidence.NAME --help  # what one measures, and its options
"""

import argparse
import subprocess
import sys

#: Name → what it measures.
PROGRAMS = {
    "speed.topology": "tuples/s through the whole topology beside Spark's own groupBy, stages, memory",
    "speed.first": "from the command to the first result, from a kill to the next, and the CPU of an idle stream",
    "speed.fixed": "a batch's fixed cost and a tuple's, from batches of several sizes, beside Spark's own groupBy",
    "speed.latency": "a batch's time and a result's latency on a steady stream, beside Spark's own groupBy",
    "speed.delivery": "tuples/s and a result's latency where results are published exactly once, beside at least once",
    "speed.rivals": "tuples/s, CPU and balance of ours beside repartition, more partitions, salted keys, round robin",
    "speed.metrics": "tuples/s with and without metrics, and with an InfluxDB in trouble",
    "speed.nexmark": "how skewed NEXMark's bids are in windows of event time, by auction and by bidder",
    "engines.shufflebench": "how skewed ShuffleBench's tuples are, and how many events it has, by Zipf's exponent",
    "speed.producer": "messages/s published beside confluent-kafka's loop",
    "speed.appetite": "messages/s of each dataset that the topology takes, beside Spark's own groupBy",
    "speed.large_file": "memory of the producer over a file of gigabytes",
    "speed.state": "states per key: CPU a touched key, sessions, the groupings, beside Spark's own ways, salting",
    "speed.session": "keyed_map's first batch and those after it, beside Spark's session_window, by settings",
    "speed.joins": "joins and lookups with hot keys: the fullest task, rows copied and held, beside Spark's own",
    "speed.messages": "orders of 225 bytes and 1 KB, all different, beside Spark's from_json and get_json_object",
    "speed.writes": "a skewed table's files, fullest task and time by balanced_write, beside hash, none, rebalance",
    "speed.migration": "latencies while states of keys move, beside a query that is stopped and started again",
    "speed.operators": "µs a tuple and bytes of state of each keyed operator, without Spark",
    "speed.planning": "what PLANNED's planner costs: a batch beside BOUNDED_LOAD, the planner alone with many sources",
    "balance.predict": "the speedup over KEY that `unskew simulate` predicts, beside that of live topologies",
    "speed.routing": "ns a routed tuple and bytes of state, each scheme",
    "balance.streams": "files of sorted and bursty streams, and an adversary's, for `unskew simulate`",
    "balance.theory": "why some streams take more replicas than the bound, and what sources must that know nothing",
    "balance.change": "max/mean of all schemes after a hot key came, was swapped, went",
    "faults.alerts": "whether each alert fires by its fault: a real topology, Kafka and Prometheus",
    "balance.spread": "a picture of what groupings do with a hot key",
    "balance.caps": "PLANNED's replicas at caps of 1.02, 1.05, 1.1, beside BOUNDED_LOAD at equal ones and the fewest",
}
#: Those that ``all`` leaves out: a campaign of faults can take hours, other engines are 2 GB to fetch, and the papers
#: write pages.
ALONE = {
    "engines": "the same jobs in Flink, Kafka Streams, Storm, Quix, Spark and others, beside ours; fetches them",
    "papers": "the papers' tables and figures, done again",
    "faults": "whether results stay exact on a cluster whose processes are killed and stopped",
}


def main() -> None:
    known = PROGRAMS | ALONE
    lines = [f"{name:20}{'*' if name in ALONE else ' '} {measures}" for name, measures in known.items()]
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="\n".join(lines), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run, or all; none: list them")
    names = parser.parse_args().names
    if not names:
        print("\n".join(lines))
    if names == ["all"]:
        names = list(PROGRAMS)
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"unknown program {unknown[0]!r}; valid: all, {', '.join(known)}")
    for name in names:
        print(f"── {name}: {known[name]}", flush=True)
        subprocess.run([sys.executable, "-m", f"evidence.{name}"], check=True)


if __name__ == "__main__":
    main()
