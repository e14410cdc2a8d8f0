"""A process that writes batches of one part by a protocol, and that stops or kills itself at one of the steps.

`python -m tests.kafka.attempt SERVERS TOPIC PROTOCOL FIRST LAST STEP SIGNAL`: it writes batches FIRST to LAST,
and gets the signal before it takes the step in the last one.
"""

import sys
from signal import Signals

from evidence.faults.transactions.protocol import PROTOCOLS, arm, commits_of, strike, striking
from unskew.kafka.connection import Connection
from unskew.kafka.transactions import BatchId, TransactionalWriter, TransactionInterrupted

RECORDS = 50  # of a batch


def write(writer: TransactionalWriter, topic: str, batch: int, *, planned_ms: int | None = None) -> bool:
    """Write the records of a batch, which are the same in each attempt. False: they had been written."""
    if not writer.begin(topic, BatchId(batch, batch if planned_ms is None else planned_ms)):
        return False
    values = [f"{batch}-{i}".encode() for i in range(RECORDS)]
    for half in (values[: RECORDS // 2], values[RECORDS // 2 :]):
        writer.put([{"key": value, "value": value} for value in half])
    writer.finish()
    return True


def main() -> None:
    """Write the batches."""
    servers, topic, protocol, first, last, step, signal = sys.argv[1:]
    writer = striking(PROTOCOLS[protocol])(Connection(servers), f"{topic}-0", commits_of(topic), 0)
    for batch in range(int(first), int(last)):
        write(writer, topic, batch)
    arm(step, Signals[signal])
    try:
        written = write(writer, topic, int(last))
    except TransactionInterrupted as error:
        print(f"interrupted: {error}")
    else:
        print("written" if written else "found")
    strike("committed")


if __name__ == "__main__":
    main()
