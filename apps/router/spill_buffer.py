"""A source's tuples until a batch is planned: in memory up to a bound, beyond it in a temporary file."""

import mmap
from collections.abc import Iterator
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

import pyarrow as pa

MOST = 64 << 20  # bytes in memory


class SpillBuffer:
    """Record batches of one schema, in their order. It is a context manager, which gives its file up.

    It keeps ``most`` bytes in memory. The file is an Arrow stream in the machine's temporary folder, read back by a
    memory map. It has no name there, so that nothing is left of it if the process is killed.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        """The batches, of which there are none yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the file up."""
        self._batches = []
        if self._file is not None:
            self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold a batch.

        Raises ``OSError`` if the temporary folder is full.
        """
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes <= self._most:
            return
        if self._writer is None:
            self._file = TemporaryFile(prefix="unskew-batch-")  # noqa: SIM115  `__exit__` closes it
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        for each in self._batches:
            self._writer.write_batch(each)
        self._batches, self._bytes = [], 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All batches. None is added any more."""
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.flush()
            self._writer = None
        if self._file is not None:
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            with pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(mapped))) as reader:
                yield from reader
        yield from self._batches
