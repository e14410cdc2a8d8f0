"""Some columns of a table, batch by batch: Parquet, CSV with a header, or JSON lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.readers.inputs import STANDARD_INPUT, ByteStream, Input
from unskew.producers.readers.lines import TOO_LONG, batches

Rows: TypeAlias = Mapping[str, pa.Array]
#: Is told of a row that can't be read: its number, why, and its bytes.
Odd: TypeAlias = Callable[[int, str, bytes], None]

_ROWS = 1 << 16
_PARQUET, _JSON = b"PAR1", b"{"


def tables(file: Input, columns: Sequence[str], odd: Odd) -> Iterator[Rows]:
    """These columns of a file; how it begins tells what it is. Those of CSV and JSON are text, with nulls.

    Raises
    ------
    UsageError
        A column isn't there.
    EnvironmentFault
        The file can't be read.

    """
    with file.open() as stream:
        begin = stream.peek()
        if begin.startswith(_PARQUET):
            if file.name == STANDARD_INPUT:
                raise UsageError("Parquet can't be read from standard input")
            yield from _parquet(file.name, columns)
        elif begin.lstrip().startswith(_JSON):
            yield from _json(stream, columns, odd)
        else:
            yield from _csv(file.name, stream, columns, odd)


def _parquet(name: str, columns: Sequence[str]) -> Iterator[Rows]:
    try:
        with pq.ParquetFile(Path(name)) as table:
            _require(name, columns, table.schema_arrow.names)
            for batch in table.iter_batches(_ROWS, columns=list(columns)):
                yield {column: batch[column] for column in columns}
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFault(f"{name} cannot be read: {error}") from None


def _csv(name: str, stream: ByteStream, columns: Sequence[str], odd: Odd) -> Iterator[Rows]:
    def invalid(row: arrow_csv.InvalidRow) -> str:
        reason = f"{row.actual_columns} columns instead of {row.expected_columns}"
        odd(row.number or 0, reason, row.text.encode())
        return "skip"

    header = stream.peek().partition(b"\n")[0]
    separator = "\t" if b"\t" in header else ","
    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=invalid)
    convert = arrow_csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True)
    try:
        with arrow_csv.open_csv(
            pa.PythonFile(stream, "r"), arrow_csv.ReadOptions(use_threads=False), parse, convert
        ) as reader:
            _require(name, columns, reader.schema.names)
            for batch in reader:
                yield {column: batch[column] for column in columns}
    except pa.ArrowInvalid as error:
        raise EnvironmentFault(f"{name} cannot be read: {error}") from None


def _json(stream: ByteStream, columns: Sequence[str], odd: Odd) -> Iterator[Rows]:
    for batch in batches(stream):
        for number, data in batch.overlong:
            odd(number, TOO_LONG, data)
        rows = []
        for at, number in enumerate(batch.lines.numbers.tolist()):
            line = batch.lines[at]
            row = _document(line)
            if row is None:
                odd(number, "not a JSON object", line)
            else:
                rows.append(row)
        yield {column: pa.array([_text(row.get(column)) for row in rows], pa.string()) for column in columns}


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
