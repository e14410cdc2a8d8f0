"""Distinct keys in Flink: `key_by` the key, then a `KeyedProcessFunction` that remembers it in a `ValueState`.

    python distinct.py BOOTSTRAP TOPIC OUTPUT FIELD WORKERS CHECKPOINTS JARS

After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/learn-flink/etl/ ("An Example with Keyed State"),
.../dev/datastream/operators/process_function/, .../dev/datastream/fault-tolerance/state/ and
.../connectors/datastream/kafka/. Checkpoints go to the folder CHECKPOINTS, because the job manager keeps no state above
5 MB (.../ops/state/checkpoints/).

Python asks the JVM for each state that it has not cached, and waits for the answer. So more states are cached than by
default (.../dev/python/python_config/, ``python.state.cache-size``). Each bundle of messages ends with a pass over that
cache, so bundles are larger than in ``work.py``.
"""

import json
import sys
from collections.abc import Iterator

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueState, ValueStateDescriptor
from work import SETTINGS, open_environment, read_topic, write_topic

OF_STATES = {"python.fn-execution.bundle.size": "10000", "python.state.cache-size": "100000"}


class FirstSeen(KeyedProcessFunction):
    """A key, when it comes for the first time."""

    def __init__(self) -> None:
        self._seen: ValueState | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        if self._seen.value() is None:
            self._seen.update(True)
            yield value


def main() -> None:
    bootstrap, topic, output, field, workers, checkpoints, jars = sys.argv[1:]
    settings = SETTINGS | OF_STATES | {"execution.checkpointing.dir": f"file://{checkpoints}"}
    environment = open_environment(workers, jars, settings)
    source = read_topic(bootstrap, topic, output, bounded=True)
    (
        environment.from_source(source, WatermarkStrategy.no_watermarks(), topic)
        .map(lambda message: json.loads(message)[field], Types.STRING())
        .key_by(lambda key: key, Types.STRING())
        .process(FirstSeen(), Types.STRING())
        .sink_to(write_topic(bootstrap, output, keyed=True))
    )
    environment.execute(topic)


if __name__ == "__main__":
    main()
