"""Distinct keys in Quix Streams: `group_by` the key, then a stateful `filter`.

    python distinct.py BOOTSTRAP TOPIC OUTPUT FIELD WORKERS STATE

One process a worker, of one consumer group. After https://quix.io/docs/quix-streams/groupby.html and
https://quix.io/docs/quix-streams/advanced/stateful-processing.html ("Using State in Custom Functions"). The settings
are those of ``program.py``, for throughput.
"""

import multiprocessing
import sys
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path

from quixstreams import Application, State


def first_seen(_: dict[str, str], state: State) -> bool:
    """Whether this is the first message of its key."""
    if state.exists("seen"):
        return False
    state.set("seen", True)
    return True


def application(bootstrap: str, output: str, state: str, aim: str = "throughput") -> Application:
    """An application with the settings for an aim (``program.py``). The folder of its state is named by the worker."""
    recovers = aim == "recovery"
    return Application(
        broker_address=bootstrap,
        consumer_group=output,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once" if recovers else "at-least-once",
        commit_interval=1.0 if recovers else 5.0,
        consumer_extra_config={"group.instance.id": Path(state).name} if recovers else {},
        state_dir=state,
        loglevel="WARNING",
        producer_extra_config={"linger.ms": 50, "compression.type": "lz4"} if aim == "throughput" else {},
    )


def start_workers(run: Callable[..., None], *given: str) -> None:
    """Start a process a worker. The last arguments are the number of workers, and a folder for their states."""
    *of, workers, state = given
    for worker in range(int(workers)):
        multiprocessing.Process(target=run, args=(*of, f"{state}/{worker}")).start()


def run(bootstrap: str, topic: str, output: str, field: str, state: str) -> None:
    app = application(bootstrap, output, state)
    path = field.split(".")
    messages = app.dataframe(app.topic(topic, value_deserializer="json"))
    keyed = messages.group_by(lambda value: str(reduce(getitem, path, value)), name=field)
    first = keyed.filter(first_seen, stateful=True)
    first.to_topic(app.topic(output, key_serializer="str", value_serializer="json"))
    app.run()


if __name__ == "__main__":
    start_workers(run, *sys.argv[1:])
