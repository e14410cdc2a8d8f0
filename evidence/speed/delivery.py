"""What it costs to publish results exactly once, beside at least once.

    python -m evidence.speed.delivery [--records N] [--rate TUPLES] [--seconds N] [--rounds N] [--grouping NAME]

Two measures, each of both deliveries in turns, with one broker. *Tuples/s* is the rate at which a topology drains a
topic, without its first batch; tuples cost nothing (x0). *Latency* is of a result of a steady stream: from its window's
end until a plain ``read_committed`` consumer has it. (The record's time in Kafka would not do: nobody can read a record
before its transaction is committed.) The first minute counts apart, because Spark warms up then.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain

import orjson

from evidence.speed.latency import begin, find_percentile
from evidence.speed.measuring import in_turns, keep_publishing, open_bench, ours, rate, records_option, run_apart
from evidence.tables import make_table, print_table
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver.session import open_session
from unskew.apps.settings import DELIVERIES, Settings
from unskew.kafka.reader import TopicReader

#: A result: seconds since the run began, and its latency in ms.
Result = tuple[float, float]


def drain(run: Settings) -> float:
    """The rate (tuples/s) at which a run drains its topic."""
    with open_session(run) as spark:
        return rate(ours(spark, run))


@contextmanager
def arriving(run: Settings) -> Iterator[list[Result]]:
    """A list that gets the results as a consumer reads them, as long as the block lasts."""
    found: list[Result] = []
    over, begun = threading.Event(), time.time()

    def read() -> None:
        with TopicReader(run.connection, list_result_topics(run)["aggregator"]) as reader:
            while not over.is_set():
                messages, now = reader.new(0.005), time.time()
                ends = (orjson.loads(message.value() or b"")["timestamp"] / 1000 for message in messages)
                found.extend((now - begun, 1000 * (now - end)) for end in ends)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def steady(run: Settings, tuples: float) -> list[Result]:
    """The results of a run beside its producer, which publishes so many tuples a second."""
    process, pipe = begin("ours", run)
    with arriving(run) as found:
        with keep_publishing(run, tuples):
            pipe.recv()
        process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    records_option(parser, 20_000_000)
    parser.add_argument("--rate", type=float, default=10_000, help="of the steady stream, tuples/s (default: 10000)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each run of the steady stream (default: 120)")
    parser.add_argument("--window", type=float, default=2.0, help="a window's length, s (default: 2)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each delivery runs (default: 3)")
    parser.add_argument("--grouping", default="PARTIAL_KEY")
    arguments = parser.parse_args()
    with open_bench() as bench:
        bench.publish(records=arguments.records)

        def one(delivery: str, kind: str, number: int) -> Settings:
            how = {"delivery": delivery, "window": arguments.window}
            if kind == "steady":
                topic = f"steady-{number}-{delivery}"
                how |= {"topic": topic, "trigger": 1.0, "until_drained": False, "run_time": arguments.seconds}
            return bench.settings(arguments.grouping, f"{kind}-{number}-{delivery}", **how)

        def draining_once(delivery: str, number: int) -> float:
            return run_apart(drain, one(delivery, "drained", number))

        def steady_once(delivery: str, number: int) -> list[Result]:
            return steady(one(delivery, "steady", number), arguments.rate)

        rates = in_turns(
            {name: partial(draining_once, name) for name in DELIVERIES}, arguments.rounds, lambda each: f"{each:,.0f}"
        )
        waits = in_turns({name: partial(steady_once, name) for name in DELIVERIES}, arguments.rounds)
    table = make_table(f"of {arguments.rounds} rounds", *DELIVERIES, "compared")
    before, after = (statistics.median(rates[name]) for name in DELIVERIES)
    table.add_row("tuples/s, median", f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.3f} ×")
    for warm in (False, True):
        for name, q in (("median", 50), ("p99", 99)):
            before, after = (find_percentile([*chain.from_iterable(waits[of])], q, warm=warm) for of in DELIVERIES)
            when = "after the first minute" if warm else "the first minute"
            compared = f"{after - before:+,.0f} ms"
            table.add_row(f"latency, {name}, {when}, ms", f"{before:,.0f}", f"{after:,.0f}", compared)
    print_table(table)


if __name__ == "__main__":
    main()
