"""Distinct keys in Bytewax: `stateful_flat_map`, whose state says whether the key was seen.

    python distinct.py BOOTSTRAP TOPIC OUTPUT FIELD WORKERS

One process a worker, as a cluster, which reads to the topic's end, as in ``program.py``. After
https://docs.bytewax.io/v0.21.0/guide/concepts/dataflow-programming.html ("Stateful Operators", "State Keys") and the
docstring of ``stateful_flat_map``. There is no recovery store, so states are in memory alone.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import reduce
from operator import getitem

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow


def first_seen(seen: bool | None, message: bytes) -> tuple[bool, list[bytes]]:
    """The key's new state, and the message if it is the first."""
    return True, [] if seen else [message]


def dataflow(bootstrap: str, topic: str, output: str, field: str) -> Dataflow:
    path = field.split(".")

    def keyed_by(message: KafkaSourceMessage) -> tuple[str, bytes]:
        return str(reduce(getitem, path, json.loads(message.value))), message.value

    def record(first: tuple[str, bytes]) -> KafkaSinkMessage:
        return KafkaSinkMessage(first[0].encode(), first[1])

    flow = Dataflow("distinct")
    messages = kop.input("read", flow, brokers=[bootstrap], topics=[topic], tail=False)
    keyed = op.map("key", messages.oks, keyed_by)
    first = op.stateful_flat_map("first", keyed, first_seen)
    kop.output("write", op.map("record", first, record), brokers=[bootstrap], topic=output)
    return flow


def run_cluster(program: str, *given: str, options: Sequence[str] = ()) -> None:
    """Run the dataflow of a program's function ``dataflow``. The last argument is the number of workers.

    ``options``: Further options of the command ``bytewax.run``.
    """
    *of, workers = given
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(workers))]
    addresses = ";".join(f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)
    for each in sockets:
        each.close()
    run = [sys.executable, "-m", "bytewax.run", f"{program}:dataflow{tuple(of)!r}", "-a", addresses, *options]
    processes = [subprocess.Popen([*run, "-i", str(worker)]) for worker in range(int(workers))]
    sys.exit(max(process.wait() for process in processes))


if __name__ == "__main__":
    run_cluster(*sys.argv)
