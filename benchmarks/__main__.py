"""All benchmarks, one after the other: `python -m benchmarks` (about a quarter of an hour), or some by their names."""

import subprocess
import sys

#: name → what it measures
BENCHMARKS = {
    "topology": "tuples/s through the whole topology beside Spark's own groupBy, stages, memory",
    "latency": "a batch's time and a result's latency on a steady stream, beside Spark's own groupBy",
    "straggler": "batch time against the ideal when tuples cost time",
    "metrics": "tuples/s with and without metrics, and with an InfluxDB in trouble",
    "producer": "messages/s published beside confluent-kafka's loop",
    "routing": "ns a routed tuple and bytes of state, each scheme",
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
