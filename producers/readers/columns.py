"""COLUMN: any column of a table as keys. A table is Parquet, CSV with a header, or JSON lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.dataset import Block, Dataset, iso
from unskew.producers.messages import keyed
from unskew.producers.readers.inputs import STANDARD_INPUT, ByteStream, Input
from unskew.producers.readers.lines import BOM, TOO_LONG, sections
from unskew.producers.readers.rejects import Reject, Rejects

#: The rows' numbers, from 1, and their columns.
Rows: TypeAlias = tuple[NDArray[np.int64], Mapping[str, pa.Array]]
#: Called with each row that can't be read: its number, the reason, and its bytes.
RejectRow: TypeAlias = Callable[[int, str, bytes], None]
_ROWS = 1 << 16
_LATEST = 10**15  # ms since the epoch, in the year 33658
_PARQUET, _JSON = b"PAR1", b"{"


class Columns(Dataset):
    """``{"key"}`` messages from one column, in the rows' order. With a column of times: ``{"key","timestamp"}``.

    Keys are converted to text, whatever their type. Times are timestamps, ISO 8601, or numbers of ms since the epoch.
    Rows without a key are rejected. If there is a column of times, so are rows without a time.

    Parameters
    ----------
    files : sequence of Input
        The tables: Parquet, CSV with a header, or JSON lines.
    rejects : Rejects
        Takes the rows that give no message.
    column : str
        The column of the keys.
    time : str
        The column of the times. Empty: there is none.
    limit : int or None
        The largest number of records to read.

    """

    name = "COLUMN"

    def __init__(
        self, files: Sequence[Input], rejects: Rejects, column: str, time: str = "", limit: int | None = None
    ) -> None:
        if not column:
            raise ValueError("which column? say it with -o column=NAME")
        self.summary = f"column {column} of {files[0].name}" + (" and others" if len(files) > 1 else "")
        self._files = list(files)
        self._column, self._time = column, time
        self._rejects = rejects
        self._limit = limit
        self._read: set[str] = set()  # files that were read as far as they ever are: their rejects are known

    def identity(self) -> dict[str, Any] | None:
        if any(file.name == STANDARD_INPUT for file in self._files):
            return None
        files = [file.fingerprint() for file in self._files]
        return {"dataset": self.name, "files": files, "columns": [self._column, self._time], "limit": self._limit}

    def blocks(self, start: int = 0) -> Iterator[Block]:
        position = 0
        for file in self._files:
            for block in self._file(file):
                first, last = max(start - position, 0), len(block)
                if self._limit is not None:
                    last = min(last, self._limit - position)
                position += len(block)
                if first < last:
                    yield block.slice(first, last)
                if self._limit is not None and position >= self._limit:
                    self._read.add(file.name)
                    return
            self._read.add(file.name)

    def _file(self, file: Input) -> Iterator[Block]:
        def reject(row: int, reason: str, data: bytes) -> None:
            if file.name not in self._read:
                self._rejects.add(Reject(file.name, row, reason, data))

        for numbers, rows in tables(file, [name for name in (self._column, self._time) if name], reject):
            keys = _keys(rows[self._column])
            times = _milliseconds(rows[self._time]) if self._time else None
            bad = {f"no {self._column}": _nulls(keys)}
            if times is not None:
                bad[f"no {self._time}"] = _nulls(times) & ~_nulls(keys)
            for reason, where in bad.items():
                for number in numbers[where].tolist():
                    reject(number, reason, b"")
            good = pa.array(~np.logical_or.reduce(list(bad.values())))
            yield keyed(keys.filter(good), None if times is None else times.filter(good).to_numpy())


def _nulls(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return column.is_null().to_numpy(zero_copy_only=False)


def _keys(column: pa.Array) -> pa.Array:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        raise UsageError(f"keys of type {column.type} can't be taken as text") from None


def _milliseconds(column: pa.Array) -> pa.Array:
    """Times in ms, int64[n]; null where there is none."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pa.array([_moment(text) for text in column.to_pylist()], pa.int64())
    try:
        if pa.types.is_temporal(column.type):
            column = pc.cast(column, pa.timestamp("ms"), safe=False)
        elif pa.types.is_floating(column.type):
            values = column.to_numpy(zero_copy_only=False)
            column = pa.array(values, mask=~(np.abs(values) < _LATEST))  # NaN, as a null is here, isn't less either
        return pc.cast(column, pa.int64(), safe=False)
    except pa.ArrowException:
        raise UsageError(f"values of type {column.type} can't be taken as times") from None


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        try:
            return iso(text)
        except ValueError:
            return None
    return int(number) if abs(number) < _LATEST else None


def tables(file: Input, columns: Sequence[str], reject: RejectRow) -> Iterator[Rows]:
    """These columns of a file, some rows at a time. The columns of CSV and JSON are text, with nulls.

    Rows of JSON are numbered as the file's lines are. Those of CSV are numbered from the one behind the header.
    The file's first bytes determine which kind of table it is.

    Raises
    ------
    UsageError
        There is no such column.
    EnvironmentFault
        The file can't be read.

    """
    with file.open() as stream:
        begin = stream.peek()
        if begin.startswith(_PARQUET):
            if file.name == STANDARD_INPUT:
                raise UsageError("Parquet can't be read from standard input")
            yield from _parquet(file.name, columns)
        elif begin.removeprefix(BOM).lstrip().startswith(_JSON):
            yield from _json(stream, columns, reject)
        else:
            yield from _csv(file.name, stream, columns, reject)


def _parquet(name: str, columns: Sequence[str]) -> Iterator[Rows]:
    try:
        with pq.ParquetFile(Path(name)) as table:
            _require(name, columns, table.schema_arrow.names)
            before = 0
            for rows in table.iter_batches(_ROWS, columns=list(columns)):
                yield np.arange(before + 1, before + rows.num_rows + 1), {column: rows[column] for column in columns}
                before += rows.num_rows
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFault(f"{name} cannot be read: {error}") from None


def _csv(name: str, stream: ByteStream, columns: Sequence[str], reject: RejectRow) -> Iterator[Rows]:
    skipped: list[int] = []  # the numbers of invalid rows at and behind the rows under way

    def invalid(row: arrow_csv.InvalidRow) -> str:
        reason = f"{row.actual_columns} columns instead of {row.expected_columns}"
        skipped.append((row.number or 1) - 1)  # Arrow's row 1 is the header
        reject(skipped[-1], reason, row.text.encode())
        return "skip"

    header = stream.peek().partition(b"\n")[0]
    separator = "\t" if b"\t" in header else ","
    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=invalid)
    # Only an empty cell is a null: by default NA, null and nan are nulls too, and NA is a country.
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    try:
        with arrow_csv.open_csv(
            pa.PythonFile(stream, "r"), arrow_csv.ReadOptions(use_threads=False), parse, convert
        ) as reader:
            _require(name, columns, reader.schema.names)
            last = 0
            for rows in reader:
                following = np.arange(last + 1, last + rows.num_rows + len(skipped) + 1)
                numbers = np.setdiff1d(following, skipped)[: rows.num_rows]
                last = int(numbers.max(initial=last))
                skipped[:] = [number for number in skipped if number > last]
                yield numbers, {column: rows[column] for column in columns}
    except pa.ArrowInvalid as error:
        raise EnvironmentFault(f"{name} cannot be read: {error}") from None


def _json(stream: ByteStream, columns: Sequence[str], reject: RejectRow) -> Iterator[Rows]:
    for section in sections(stream):
        for number, data in section.overlong:
            reject(number, TOO_LONG, data)
        rows, numbers = [], []
        for at, number in enumerate(section.lines.numbers.tolist()):
            line = section.lines[at]
            row = _document(line)
            if row is None:
                reject(number, "not a JSON object", line)
            else:
                rows.append(row)
                numbers.append(number)
        texts = {column: pa.array([_text(row.get(column)) for row in rows], pa.string()) for column in columns}
        yield np.array(numbers, np.int64), texts


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return None if isinstance(value, (dict, list)) else orjson.dumps(value).decode()


def _require(name: str, columns: Sequence[str], there: Sequence[str]) -> None:
    for column in columns:
        if column not in there:
            raise UsageError(f"{name} has no column {column!r}; valid: {', '.join(there)}")
