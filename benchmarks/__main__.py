"""All benchmarks, one after the other: `python -m benchmarks` (three hours), or some by their names."""

import subprocess
import sys

#: name → what it measures
BENCHMARKS = {
    "topology": "tuples/s through the whole topology beside Spark's own groupBy, stages, memory",
    "first": "from the command to the first result, from a kill to the next, and the CPU of an idle stream",
    "fixed": "a batch's fixed cost and a tuple's, fitted from batches of several sizes, beside Spark's own groupBy",
    "latency": "a batch's time and a result's latency on a steady stream, beside Spark's own groupBy",
    "rivals": "tuples/s, CPU and balance of ours beside repartition, more partitions, salted keys, round robin",
    "splitter": "messages/s that the splitter reads, by their spelling, beside from_json",
    "straggler": "batch time against the ideal when tuples cost time",
    "metrics": "tuples/s with and without metrics, and with an InfluxDB in trouble",
    "producer": "messages/s published beside confluent-kafka's loop",
    "appetite": "messages/s of each dataset that the topology takes, beside Spark's own groupBy",
    "large_file": "memory of the producer over a file of gigabytes",
    "state": "states per key: CPU a touched key, sessions, and the groupings, beside Spark's own ways and salting",
    "migration": "latencies of tuples while states of keys move, beside a query that is stopped and started again",
    "works": "µs a tuple and bytes of state of each work with a state per key, without Spark",
    "reports": "what feedback's reports cost when workers name only their heaviest keys",
    "routing": "ns a routed tuple and bytes of state, each scheme",
    "balance": "max/mean and workers a key of all schemes on many streams, beside the bound",
    "change": "max/mean of all schemes after a hot key came, was swapped, went",
    "tradeoff": "BOUNDED_LOAD's balance against its replicas by slack, beside known frequencies and bounds",
    "separate": "what sources that know nothing of each other must replicate",
    "counting": "why some streams take more replicas than the bound",
}


def main() -> None:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    if unknown := [name for name in chosen if name not in BENCHMARKS]:
        sys.exit(f"unknown benchmark {unknown[0]!r}; valid: {', '.join(BENCHMARKS)}")
    for name in chosen:
        print(f"── {name}: {BENCHMARKS[name]}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
