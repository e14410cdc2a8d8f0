"""Every alert is fired by the fault that its runbook is about: a real topology, Kafka and Prometheus.

    python -m evidence.faults.alerts [--faster N]

Prometheus evaluates the rules of ``deploy/rules`` with their durations divided by N, so that an alert which waits for
five minutes waits for some seconds. Thresholds stay, but for two: ``BatchesStopped`` waits for 10 s
without a batch, and ``StatesGrowing`` looks at states of any size. Each fault stays until its alerts fire. The table
says when they did, from the program's beginning on; the exit code is 1 if one didn't fire.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from evidence.speed.measuring import Bench, open_bench
from evidence.tables import make_table, print_table
from unskew.deploy.servers.prometheus import PrometheusServer
from unskew.kafka.topics import ensure_topic
from unskew.loopback import free_port

_RULES = Path(__file__).parents[2] / "deploy" / "rules"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PARTITIONS = 8
_HANGING = _PARTITIONS - 1  # the partition with the open transaction
_PATIENCE = 420.0  # s for which a fault's alerts are waited for
_RATE = 5_000  # messages/s, of which the hot key's worker executes 1,000


def make_faster(rules: str, faster: float) -> str:
    """Rules with durations divided by ``faster``.

    >>> make_faster("expr: rate(x[5m]) > 2", 20)
    'expr: rate(x[15000ms]) > 2'
    """

    def divide(match: re.Match[str]) -> str:
        seconds = int(match[2]) * _UNITS[match[3]] / faster
        return f"{match[1]}{max(round(1000 * seconds), 2000)}ms"

    rules = re.sub(r"(\[|for: |offset )(\d+)([smhd])\b", divide, rules)
    rules = rules.replace("batch_timestamp_seconds > 120", "batch_timestamp_seconds > 10")
    return rules.replace("> 1e9", "> 1")


class Stream:
    """Messages of JSON at a rate: most have one key and one partition; one in twenty is late, and one is invalid."""

    def __init__(self, bench: Bench, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bench.broker.bootstrap_servers, "linger.ms": 20})
        self._topic, self._over, self._random = topic, threading.Event(), random.Random(1)
        self._thread = threading.Thread(target=self._publish)

    def send(self, messages: int) -> None:
        """Send so many messages at once."""
        now = round(time.time() * 1000)
        for _ in range(messages):
            draw = self._random.random
            user = "hot" if draw() < 0.8 else f"user {self._random.randrange(10**9)}"
            body = b"{" if draw() < 0.05 else b'{"user":"%s"}' % user.encode()
            partition = 0 if draw() < 0.7 else self._random.randrange(1, _HANGING)
            self._producer.produce(
                self._topic, body, partition=partition, timestamp=now - (60_000 if draw() < 0.05 else 0)
            )
        self._producer.poll(0)

    def _publish(self) -> None:
        while not self._over.wait(0.1):
            try:
                self.send(_RATE // 10)
            except BufferError:  # the broker is paused
                self._producer.poll(0.1)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Send at the rate for as long as the block lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


@contextmanager
def run_topology(
    bench: Bench, checkpoint: Path, workers: int, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A topology as a process group of its own, and the port of its metrics. Its output is beside its checkpoint."""
    port = free_port()
    unskew = str(Path(sys.executable).with_name("unskew"))
    command = [
        *(unskew, "topology", "LOCAL", "COLUMN", "KEY", "walk", str(_PARTITIONS), str(workers), "x1"),
        *("--metrics", f"prometheus://127.0.0.1:{port}", "--checkpoint", str(checkpoint)),
        *("--bootstrap-servers", bench.broker.bootstrap_servers, "-s", "key=user", *options),
        *("--on-data-loss", "skip"),
    ]
    environment = os.environ | {"INFLUXDB_V2_TOKEN": "none"}
    with checkpoint.with_suffix(".log").open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
    try:
        yield process, port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Walk:
    """What fired, and when."""

    def __init__(self, server: PrometheusServer) -> None:
        self._server, self._began = server, time.monotonic()
        self.rows: list[tuple[str, str, str]] = []

    def expect(
        self, fault: str, alerts: Sequence[str], cause: Callable[[], object] = lambda: None, run: str = ".*"
    ) -> None:
        """Cause a fault, and wait for its alerts of a run."""
        cause()
        end, missing = time.monotonic() + _PATIENCE, set(alerts)
        while missing and time.monotonic() < end:
            time.sleep(0.5)
            for alert in sorted(missing & self._list_firing(run)):
                self.rows.append((fault, alert, f"{time.monotonic() - self._began:.0f} s"))
                print(*self.rows[-1], sep=" | ", file=sys.stderr)
                missing.remove(alert)
        self.rows += [(fault, alert, "never") for alert in sorted(missing)]

    def _list_firing(self, run: str) -> set[str]:
        firing = self._server.query(f'ALERTS{{alertstate="firing",run=~"{run}"}}')
        return {each["metric"]["alertname"] for each in firing}


def delete_messages(bench: Bench, topic: str) -> None:
    """Delete what the busiest partition has, as retention does it."""
    admin = AdminClient({"bootstrap.servers": bench.broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, -1)]).values():  # -1: to the end
        future.result()


def open_transaction(bench: Bench, topic: str) -> Producer:
    """A producer that has begun a transaction in a partition, and doesn't end it."""
    producer = Producer({"bootstrap.servers": bench.broker.bootstrap_servers, "transactional.id": "hanging"})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(10):
        producer.produce(topic, b'{"user":"late"}', partition=_HANGING)
    producer.flush()
    return producer


def walk(faster: float, folder: Path) -> list[tuple[str, str, str]]:
    """Cause the faults one after the other: rows of fault, alert, when it fired."""
    rules = []
    for file in ("recording.yml", "alerts.yml"):
        rules.append(folder / file)
        rules[-1].write_text(make_faster((_RULES / file).read_text(encoding="utf-8"), faster), encoding="utf-8")
    with ExitStack() as stack:
        bench = stack.enter_context(open_bench())
        ensure_topic(bench.connection, "walk", _PARTITIONS)
        stream = Stream(bench, "walk")
        stream.send(60_000)
        _hanging = open_transaction(bench, "walk")  # which ends when the producer is gone
        trouble = ("--time", "event", "--lateness", "1", "--window", "2", "--trigger", "1")
        influx = ("--metrics", f"http://127.0.0.1:{free_port()}")
        process, port = stack.enter_context(run_topology(bench, folder / "walk", 4, *trouble, *influx))
        states = ("--work", "unskew.operators:Statistics", "--work-option", "value=offset", "--work-option", "ttl=3600")
        _, second = stack.enter_context(run_topology(bench, folder / "states", 5, "--max-tuples", "500", *states))
        targets = [f"127.0.0.1:{each}" for each in (port, second)]
        server = PrometheusServer(folder / "prometheus", targets={"unskew": targets}, rules=rules, every=1)
        seen = Walk(stack.enter_context(server))
        seen.expect("a first batch of minutes", ["BatchesNotBegun"])
        seen.expect("InfluxDB isn't there", ["PointsLost"])
        stack.enter_context(stream.flowing())
        seen.expect("a transaction stays open", ["TransactionHangs"])
        seen.expect("invalid and late messages", ["RejectsRising", "LateRising"])
        seen.expect("most messages in one partition", ["KafkaPartitionHot", "KafkaPartitionsUneven"])
        seen.expect("80 % in one key", ["LoadImbalanced", "FallingBehind", "BatchesSlow", "BatchesOftenSlow"])
        seen.expect("messages come faster than they are done", ["ResultsStale", "ResultsOftenStale"])
        seen.expect("states without an end", ["StatesGrowing"])
        seen.expect("messages are deleted", ["MessagesGone"], lambda: delete_messages(bench, "walk"))
        seen.expect("the broker stands still", ["BatchesStopped"], bench.broker.pause, "walk-s8-w5-kg")
        bench.broker.resume()
        ends = ["MetricsNotArriving", "RunEnded"]
        seen.expect("the driver is killed", ends, lambda: os.killpg(process.pid, signal.SIGKILL))
        return seen.rows


def main() -> int:
    """Run the program."""
    description = __doc__ or ""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faster", type=float, default=60.0, metavar="N", help="default: 60")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = walk(options.faster, Path(folder))
    alerts = {
        rule["alert"]
        for group in yaml.safe_load((_RULES / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    }
    rows += [("–", alert, "not tried") for alert in sorted(alerts - {alert for _, alert, _ in rows})]
    table = make_table("fault", "alert", "fires at", left=2)
    for row in rows:
        table.add_row(*row)
    print_table(table)
    return int(any(after == "never" for *_, after in rows))


if __name__ == "__main__":
    sys.exit(main())
