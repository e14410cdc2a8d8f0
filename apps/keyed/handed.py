"""Rows of states that workers hand each other: files beside the checkpoint, written and read by the workers.

A worker writes one file for a plan, with a batch of rows for each receiver; a receiver reads but its own of each file.
It is written whole by the batch at whose end the rows leave the table. If that is run again it finds the table as it
was, and writes the same bytes.
"""

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from unskew.apps.checkpoint.folders import numbers
from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.keyed.bins import KEY
from unskew.apps.keyed.parcels import WINDOW
from unskew.grouping.keys import hash_keys

_NAME = re.compile(r"(\d+)-(\d+)")
_RECEIVERS = b"unskew.receivers"


class Handed:
    """What workers hand each other, plan by plan.

    A plan's files are ``<checkpoint>/unskew/moves/<number>/<sender>-<batch>``. While not all workers have handed out
    for a plan, those that have take back what they handed out, and hand it out anew at the end of the next batch that
    calls them: of each sender the newest file counts, of the batches before.

    Parameters
    ----------
    checkpoint : str or Place
        The query's checkpoint location.

    """

    def __init__(self, checkpoint: Where) -> None:
        self._place = Place.of(checkpoint).below("unskew", "moves")

    def plans(self) -> list[int]:
        """The numbers of the plans that there are files of, ascending."""
        return numbers(self._place.folder())

    def to(self, receiver: int, plan: int, batch: int) -> list[pa.RecordBatch]:
        """What a worker gets for a plan, as of before a batch: rows of its table with ``WINDOW``."""
        files = sorted(self._newest(plan, batch).values())
        return [part for _, name in files for part in self._read(plan, name, receiver)]

    def back(self, sender: int, plan: int, batch: int) -> list[pa.RecordBatch] | None:
        """What a worker has handed out for a plan before a batch; None: it has written nothing."""
        found = self._newest(plan, batch).get(sender)
        return None if found is None else self._read(plan, found[1])

    def hand(self, sender: int, plan: int, batch: int, rows: Mapping[int, pa.RecordBatch], schema: pa.Schema) -> int:
        """Write what a worker hands out: rows with ``WINDOW`` (of this schema) by their receiver. Its bytes."""
        receivers = sorted(rows)
        said = schema.with_metadata({_RECEIVERS: ",".join(map(str, receivers)).encode()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, said) as writer:
            for receiver in receivers:
                writer.write_batch(_ordered(rows[receiver]))
        data = sink.getvalue().to_pybytes()
        self._place.folder(str(plan)).write(f"{sender}-{batch}", data)
        return len(data)

    def forget(self, taken: Sequence[int]) -> None:
        """Remove what no replay can ask for: of plans that each worker had taken in before the batch that is done."""
        if min(taken):
            for plan in self.plans():
                if plan <= min(taken):
                    self._place.folder(str(plan)).clear()

    def _read(self, plan: int, name: str, receiver: int | None = None) -> list[pa.RecordBatch]:
        """The rows of a file; of one receiver, or of all."""
        with self._place.folder(str(plan)).open(name) as file, pa.ipc.open_file(file) as reader:
            wanted = [n for n, of in enumerate(_receivers(reader.schema)) if receiver is None or of == receiver]
            return [reader.get_batch(number).replace_schema_metadata() for number in wanted]

    def _newest(self, plan: int, batch: int) -> dict[int, tuple[int, str]]:
        """Sender → batch and name of its file that counts."""
        newest: dict[int, tuple[int, str]] = {}
        for name in self._place.folder(str(plan)).names():
            named = _NAME.fullmatch(name)
            if named and int(named[2]) < batch:
                sender, found = int(named[1]), (int(named[2]), name)
                newest[sender] = max(newest.get(sender, found), found)
        return newest


def _receivers(schema: pa.Schema) -> list[int]:
    return [int(number) for number in (schema.metadata or {})[_RECEIVERS].decode().split(",") if number]


def _ordered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """By window, hash and key: the same rows are the same bytes, however they lay."""
    by = pa.table({"window": rows.column(WINDOW), "hash": hash_keys(rows.column(KEY)), "key": rows.column(KEY)})
    order = pc.call_function("sort_indices", [by], pc.SortOptions([(name, "ascending") for name in by.column_names]))
    return rows.take(order)
