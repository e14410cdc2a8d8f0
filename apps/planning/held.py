"""What a source holds of a batch until it is planned: in memory up to a bound, beyond it in a temporary file."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkstemp
from types import TracebackType
from typing import Self

import pyarrow as pa

MOST = 64 << 20  # bytes in memory


class Held:
    """Record batches of one schema, in their order. It is a context manager, which removes its file.

    The file is an Arrow stream in the machine's temporary folder, read back by a memory map.

    Parameters
    ----------
    most : int
        How many bytes are held in memory.

    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._path: Path | None = None
        self._file: pa.NativeFile | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        """The batches, of which there are none yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the file."""
        self._finish()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold a batch.

        Raises
        ------
        OSError
            The temporary folder is full.

        """
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes <= self._most:
            return
        if self._writer is None:
            descriptor, path = mkstemp(prefix="unskew-batch-", suffix=".arrow")
            os.close(descriptor)
            self._path, self._file = Path(path), pa.OSFile(path, "wb")
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        for each in self._batches:
            self._writer.write_batch(each)
        self._batches, self._bytes = [], 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All batches. None is added any more."""
        self._finish()
        if self._path is not None:
            with pa.memory_map(str(self._path)) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        yield from self._batches

    def _finish(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
            self._writer = self._file = None
