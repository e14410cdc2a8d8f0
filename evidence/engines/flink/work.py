"""The job with work in Flink: `key_by` the key, then tumbling windows whose aggregate is a Python class.

    python work.py BOOTSTRAP TOPIC OUTPUT FIELD COST_MS COST WORKERS LATE_MS AIM JARS

After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/connectors/datastream/kafka/ and
.../dev/python/datastream/operators/windows/. The window is by the record's time in Kafka. There is no idle time-out:
a source that the work holds back would be taken for an idle one, and its messages for late ones.

AIM is ``throughput``: it reads to the topic's end, and what its tasks have read is kept in its folder then
(.../deployment/advanced/historyserver/); or ``latency``: it reads on, buffers between tasks are sent after
10 ms (.../dev/datastream/execution/execution_configuration/ and .../dev/datastream/overview/, "Controlling Latency"),
and a bundle of messages for Python after 100 ms (.../dev/python/python_config/); or ``recovery``: as ``latency``, and
it goes on from the last checkpoint in its folder (.../ops/state/checkpoints/, "Retained checkpoints").
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyflink.common import Duration, SimpleStringSchema, Time, Types, WatermarkStrategy
from pyflink.common.configuration import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

WINDOW_MS = 5_000
SETTINGS = {
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "10 s",
    "python.executable": sys.executable,
    "python.fn-execution.bundle.size": "1000",
}
FOR_LATENCY = {"execution.buffer-timeout.interval": "10 ms", "python.fn-execution.bundle.time": "100"}
FOR_RECOVERY = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}


class Work(AggregateFunction):
    """Works for each message of a key, at the worker that owns it, and counts it."""

    def __init__(self, seconds: float, cost: str) -> None:
        self._seconds = seconds
        self._cost = cost

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        if self._cost == "sleep":
            time.sleep(self._seconds)
            return accumulator + 1
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Record(ProcessWindowFunction):
    """A window's count as JSON."""

    def process(self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[int]) -> Iterable[str]:
        yield json.dumps({"start": context.window().start, "key": key, "n": next(iter(elements))})

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """Nothing is kept."""


def open_environment(workers: str, jars: str, settings: Mapping[str, str]) -> StreamExecutionEnvironment:
    """An environment with so many tasks side by side."""
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration())
    environment.add_jars(*jars.split(";"))
    environment.set_parallelism(int(workers))
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    environment.configure(configuration)
    return environment


def read_topic(bootstrap: str, topic: str, group: str, *, bounded: bool) -> KafkaSource:
    """The texts of a topic from its beginning: to its present end if it is bounded."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_group_id(group)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    return (source.set_bounded(KafkaOffsetsInitializer.latest()) if bounded else source).build()


def write_topic(bootstrap: str, topic: str, *, keyed: bool = False) -> KafkaSink:
    """A sink for texts; if it is keyed, each is its record's key, too."""
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record = record.set_key_serialization_schema(SimpleStringSchema()) if keyed else record
    record = record.set_value_serialization_schema(SimpleStringSchema()).build()
    return KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(record).build()


def choose_settings(aim: str) -> dict[str, str]:
    """The settings for an aim."""
    if aim == "throughput":
        return SETTINGS | {"jobmanager.archive.fs.dir": Path("account").absolute().as_uri()}
    chosen = SETTINGS | FOR_LATENCY
    if aim == "recovery":
        checkpoints = Path("checkpoints").absolute()
        chosen |= FOR_RECOVERY | {"execution.checkpointing.dir": checkpoints.as_uri()}
        # A checkpoint is whole once it has this file.
        whole = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
        if whole:
            chosen["execution.state-recovery.path"] = whole[-1].parent.as_uri()
    return chosen


def main() -> None:
    bootstrap, topic, output, field, cost_ms, cost, workers, late_ms, aim, jars = sys.argv[1:]
    environment = open_environment(workers, jars, choose_settings(aim))
    source = read_topic(bootstrap, topic, output, bounded=aim == "throughput")
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(int(late_ms)))
    (
        environment.from_source(source, times, topic)
        .map(lambda message: json.loads(message)[field], Types.STRING())
        .key_by(lambda key: key, Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .aggregate(
            Work(float(cost_ms) / 1000, cost), Record(), accumulator_type=Types.LONG(), output_type=Types.STRING()
        )
        .sink_to(write_topic(bootstrap, output))
    )
    environment.execute(topic)


if __name__ == "__main__":
    main()
