"""COLUMN: any column of a table as keys. A table is Parquet, CSV or TSV with a header, or JSON lines.

Text is read as text: no type is inferred, so that `01002` and `1002` are two keys, and numbers keep their digits.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.datasets.interface import Block, Dataset, parse_iso_time
from unskew.producers.messages import make_key_messages
from unskew.producers.readers.inputs import STANDARD_INPUT, ByteStream, Input
from unskew.producers.readers.lines import BOM, LONGEST, TOO_LONG, LineFields, Lines, read_sections
from unskew.producers.readers.rejected_records import RejectedRecord, RejectLog

#: The rows' numbers, from 1, and their columns.
Rows: TypeAlias = tuple[NDArray[np.int64], Mapping[str, pa.Array]]
#: Called with each row that can't be read: its number, the reason, and its bytes.
RejectRow: TypeAlias = Callable[[int, str, bytes], None]
_ROWS = 1 << 16
_LATEST = 10**15  # ms since the epoch, in the year 33658
_PARQUET, _JSON, _QUOTE = b"PAR1", b"{", ord('"')


class ColumnDataset(Dataset):
    """``{"key"}`` messages from one column, in the rows' order. With a column of times: ``{"key","timestamp"}``.

    The files are Parquet, CSV or TSV with a header, or JSON lines; at most ``limit`` records are read. Keys are
    converted to text, whatever their type. Times are timestamps, ISO 8601, or numbers of ms since the epoch. Rows
    without a key are rejected. If there is a column of times, so are rows without a time.
    """

    name = "COLUMN"

    def __init__(
        self, files: Sequence[Input], rejects: RejectLog, column: str, time: str = "", limit: int | None = None
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
                self._rejects.add(RejectedRecord(file.name, row, reason, data))

        for rows in read_keys(file, self._column, reject, self._time):
            yield make_key_messages(rows.keys, rows.times)


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """n rows of a table that have a key."""

    keys: pa.Array  #: string[n]: The keys as text, whatever their type in the table.
    times: NDArray[np.int64] | None  #: int64[n] or None: Their times (ms since the epoch). None: the table has none.
    others: Mapping[str, pa.Array]  #: Further columns, as the table has them.

    def head(self, most: int) -> "KeyedRows":
        """The first rows."""
        times = None if self.times is None else self.times[:most]
        return KeyedRows(self.keys[:most], times, {name: column[:most] for name, column in self.others.items()})


def read_keys(
    file: Input, column: str, reject: RejectRow, time: str = "", others: Sequence[str] = (), *, optional: bool = False
) -> Iterator[KeyedRows]:
    """The rows of a table that have a key, and a time if there is a column of times, some at a time.

    With ``optional``, a table without the column ``time`` has no times. Raises as ``read_tables`` does.
    """
    required = [column, *others, *([] if optional or not time else [time])]
    for numbers, rows in read_tables(file, required, reject, [time] if optional and time else []):
        keys, odd = _convert_keys(rows[column])
        times = _convert_times(rows[time]) if time in rows else None
        bad = {"not UTF-8": odd, f"no {column}": _find_nulls(keys) & ~odd}
        if times is not None:
            bad[f"no {time}"] = _find_nulls(times) & ~_find_nulls(keys)
        for reason, where in bad.items():
            for number in numbers[where].tolist():
                reject(number, reason, b"")
        good = pa.array(~np.logical_or.reduce(list(bad.values())))
        yield KeyedRows(
            keys.filter(good),
            None if times is None else times.filter(good).to_numpy(),
            {other: rows[other].filter(good) for other in others},
        )


def _find_nulls(column: pa.Array) -> NDArray[np.bool_]:
    return column.is_null().to_numpy(zero_copy_only=False)


def _convert_keys(column: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Keys as text, and which of them can't be, as their bytes aren't UTF-8: these are null."""
    try:
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        if _is_text(column.type):
            column = pc.cast(column, pa.binary())  # Parquet's readers don't check that strings are UTF-8
        return pc.cast(column, pa.string()), np.zeros(len(column), np.bool_)
    except pa.ArrowException:
        if not pa.types.is_binary(column.type):
            raise UsageError(f"keys of type {column.type} can't be taken as text") from None
    texts = [_decode_key(value) for value in column.to_pylist()]
    keys = pa.array(texts, pa.string())
    return keys, _find_nulls(keys) & ~_find_nulls(column)


def _is_text(kind: pa.DataType) -> bool:
    tests = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    return any(getattr(pa.types, test)(kind) for test in tests) or pa.types.is_fixed_size_binary(kind)


def _decode_key(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _convert_times(column: pa.Array) -> pa.Array:
    """Times in ms, int64[n]; null where there is none."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if _is_text(column.type):
        return pa.array([_parse_time(text) for text in _convert_keys(column)[0].to_pylist()], pa.int64())
    try:
        if pa.types.is_temporal(column.type):
            column = pc.cast(pc.cast(column, pa.timestamp("ms"), safe=False), pa.int64())
        return pc.cast(_drop_large_times(column), pa.int64(), safe=False)
    except pa.ArrowException:
        raise UsageError(f"values of type {column.type} can't be taken as times") from None


def _drop_large_times(column: pa.Array) -> pa.Array:
    """Numbers, null where they are too large for a time, or NaN."""
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    within = pa.array(np.abs(values) < _LATEST)  # nulls are NaN here
    return pc.call_function("if_else", [within, column, pa.scalar(None, column.type)])


def _parse_time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        try:
            return parse_iso_time(text)
        except ValueError:
            return None
    return int(number) if abs(number) < _LATEST else None


def read_tables(file: Input, columns: Sequence[str], reject: RejectRow, optional: Sequence[str] = ()) -> Iterator[Rows]:
    """These columns of a file, some rows at a time. The columns of text and JSON are text, with nulls.

    Rows of text and JSON are numbered as the file's lines are, those of Parquet from 1. ``optional`` columns are read
    if the table has them. The file's first bytes determine which kind of table it is. Raises ``UsageError`` if there is
    no such column, or two have the name; ``EnvironmentFault`` if the file can't be read, or is empty.
    """
    with file.open() as stream:
        begin = stream.peek().removeprefix(BOM).lstrip()
        if not begin:
            raise EnvironmentFault(f"{file.name} is empty; valid: Parquet, CSV or TSV with a header, JSON lines")
        if begin.startswith(_PARQUET):
            if file.name == STANDARD_INPUT:
                raise UsageError("Parquet can't be read from standard input")
            yield from _read_parquet(file.name, columns, optional)
        elif begin.startswith(_JSON):
            yield from _read_json(stream, columns, reject, optional)
        else:
            yield from _text_table(file.name, stream, columns, reject, optional)


def _read_parquet(name: str, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Rows]:
    try:
        # Nanoseconds, Arrow's own unit for INT96, end in the year 2262.
        with pq.ParquetFile(Path(name), coerce_int96_timestamp_unit="us") as table:
            read = _select_columns(name, columns, optional, table.schema_arrow.names)
            before = 0
            for rows in table.iter_batches(_ROWS, columns=read):
                yield np.arange(before + 1, before + rows.num_rows + 1), {column: rows[column] for column in read}
                before += rows.num_rows
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFault(f"{name} cannot be read: {error}") from None


def _text_table(
    name: str, stream: ByteStream, columns: Sequence[str], reject: RejectRow, optional: Sequence[str]
) -> Iterator[Rows]:
    """The rows of CSV or TSV, which are numbered by their first lines."""
    header: list[str] = []
    read: list[str] = []
    separator, rest = "", None
    for section in read_sections(stream):
        lines = section.lines if rest is None else _join_lines(rest, section.lines)
        if not header:
            if section.overlong and not (len(lines) and lines.numbers[0] < section.overlong[0][0]):
                raise EnvironmentFault(f"{name} cannot be read: its first line has more than {LONGEST:,} bytes")
            separator = "\t" if b"\t" in lines[0] else ","
            table = csv.reader(_decode_lines(lines), delimiter=separator)
            try:
                header = [_escape_text(column) for column in next(table)]
            except csv.Error as error:
                raise EnvironmentFault(f"{name} cannot be read: its header: {error}") from None
            read = _select_columns(name, columns, optional, header)
            lines = _slice_lines(lines, table.line_num)
        for number, data in section.overlong:
            reject(number, TOO_LONG, data)
        if (lines.data == _QUOTE).any():
            numbers, cells, rest = _parse_quoted_lines(lines, separator, header, read, reject)
        else:
            (numbers, cells), rest = _parse_plain_lines(lines, separator, header, read, reject), None
        yield numbers, cells
    if not header:
        raise EnvironmentFault(f"{name} is empty; valid: CSV or TSV with a header")
    if rest is not None:
        numbers, cells, _ = _parse_quoted_lines(rest, separator, header, read, reject, end=True)
        yield numbers, cells


def _escape_text(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _parse_plain_lines(
    lines: Lines, separator: str, header: Sequence[str], read: Sequence[str], reject: RejectRow
) -> Rows:
    """Rows of lines that have no quotes: whole columns at a time."""
    fields = LineFields(lines, separator.encode(), tuple(header))
    for rejected in fields.rejected:
        reject(*rejected)
    return fields.numbers, {column: _null_empty_cells(fields.text(column)) for column in read}


def _null_empty_cells(texts: pa.Array) -> pa.Array:
    """Only an empty cell is a null: NA, null and nan are keys like others, and NA is a country."""
    return pc.call_function("if_else", [pc.call_function("equal", [texts, ""]), pa.scalar(None, pa.string()), texts])


def _parse_quoted_lines(
    lines: Lines,
    separator: str,
    header: Sequence[str],
    read: Sequence[str],
    reject: RejectRow,
    *,
    end: bool = False,
) -> tuple[NDArray[np.int64], dict[str, pa.Array], Lines | None]:
    """Rows of lines with quotes, and the last of them if a quoted field goes on behind them.

    TSV has no quotes by its own standard, but spreadsheets write them. So a quote that doesn't enclose a field is a
    character like others there. In CSV, the line of such a quote is rejected; the lines behind it are read.
    """
    texts, numbers = list(_decode_lines(lines)), lines.numbers.tolist()
    utf8 = bool(lines.valid_utf8().all())
    where = [header.index(column) for column in read]
    found: list[tuple[int, list[str | None]]] = []
    for at, behind, row in _split_rows(texts, separator, len(header), end=end):
        if behind == at:
            return *_collect_columns(found, read), _slice_lines(lines, at)
        took = "" if behind == at + 1 else f", by a quote over {numbers[behind - 1] - numbers[at] + 1} lines"
        if row is None:
            reason = "a quote that encloses no field"
        elif not utf8 and any("\udc80" <= character <= "\udcff" for character in "".join(row)):
            reason = f"not UTF-8{took}"
        elif len(row) != len(header):
            reason = f"{len(row)} fields instead of {len(header)}{took}"
        else:
            found.append((numbers[at], [row[column] or None for column in where]))
            continue
        reject(numbers[at], reason, "".join(texts[at:behind]).encode(errors="surrogateescape").rstrip(b"\r\n"))
    return *_collect_columns(found, read), None


def _split_rows(
    texts: Sequence[str], separator: str, width: int, *, end: bool
) -> Iterator[tuple[int, int, list[str] | None]]:
    """Each row's first line, the line behind it, and its fields, or None if it has none.

    With lines to come (not ``end``), a row that these may complete is the last one. It has no line of its own.
    """
    at = behind = 0
    while at < len(texts):
        began = at
        table = csv.reader(map(texts.__getitem__, range(began, len(texts))), delimiter=separator, strict=True)
        while at < len(texts) and at == behind:
            row = _next_row(table)
            behind = began + table.line_num
            if row is None and behind == len(texts) and not end and sum(map(len, texts[at:])) <= LONGEST:
                yield at, at, None
                return
            following = behind
            if row is None or (separator == "\t" and _swallows_rows(texts[at:behind], width)):
                row = texts[at].rstrip("\r\n").split(separator) if separator == "\t" else None
                following = at + 1
            yield at, following, row
            at = following
        behind = at


def _next_row(table: Iterator[list[str]]) -> list[str] | None:
    try:
        return next(table)
    except csv.Error:
        return None


def _swallows_rows(texts: Sequence[str], fields: int) -> bool:
    """Whether a quoted field has taken lines that are rows by themselves."""
    return len(texts) > 1 and fields > 1 and all(text.count("\t") == fields - 1 for text in texts)


def _collect_columns(
    rows: Sequence[tuple[int, Sequence[str | None]]], read: Sequence[str]
) -> tuple[NDArray[np.int64], dict[str, pa.Array]]:
    numbers = np.array([number for number, _ in rows], np.int64)
    return numbers, {column: pa.array([row[at] for _, row in rows], pa.string()) for at, column in enumerate(read)}


def _decode_lines(lines: Lines) -> Iterator[str]:
    """The lines with their ends, and with the empty lines behind them. Bytes that aren't UTF-8 are surrogates."""
    data = lines.data.tobytes()
    starts, stops = lines.starts.tolist(), lines.stops.tolist()
    for start, stop, following in zip(starts, stops, [*starts[1:], len(data)], strict=True):
        between = data[stop:following]
        line = data[start:following] if not between.strip(b"\r\n") else data[start:stop] + b"\n"
        yield line.decode(errors="surrogateescape")


def _slice_lines(lines: Lines, first: int) -> Lines:
    """The lines from one of them on, without the data before it."""
    begin = lines.starts[first] if first < len(lines) else len(lines.data)
    return Lines(lines.data[begin:], lines.starts[first:] - begin, lines.stops[first:] - begin, lines.numbers[first:])


def _join_lines(lines: Lines, others: Lines) -> Lines:
    """Lines of one section and those of the next one."""
    size = len(lines.data)
    return Lines(
        np.concatenate([lines.data, others.data]),
        np.concatenate([lines.starts, others.starts + size]),
        np.concatenate([lines.stops, others.stops + size]),
        np.concatenate([lines.numbers, others.numbers]),
    )


def _read_json(
    stream: ByteStream, columns: Sequence[str], reject: RejectRow, optional: Sequence[str]
) -> Iterator[Rows]:
    read: list[str] = []
    for section in read_sections(stream):
        for number, data in section.overlong:
            reject(number, TOO_LONG, data)
        rows, numbers = [], []
        for at, number in enumerate(section.lines.numbers.tolist()):
            line = section.lines[at]
            row = _parse_document(line)
            if row is None:
                reject(number, "not a JSON object", line)
                continue
            read = read or [*columns, *(column for column in optional if column in row)]
            rows.append([_render_value(row.get(column), column, line) for column in read])
            numbers.append(number)
        if rows:
            texts = zip(*rows, strict=True)
            yield (
                np.array(numbers, np.int64),
                {column: pa.array(values, pa.string()) for column, values in zip(read, texts, strict=True)},
            )


def _parse_document(line: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _render_value(value: Any, column: str, line: bytes) -> str | None:
    """A value as the line has it. A float may stand for other digits: 1.50, or an integer beyond 64 bits."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return None
    if isinstance(value, float):
        return json.loads(line, parse_float=str, parse_int=str)[column]
    return orjson.dumps(value).decode()


def _select_columns(name: str, columns: Sequence[str], optional: Sequence[str], there: Sequence[str]) -> list[str]:
    """The columns to read: those that are required, and the others that are there."""
    read = list(dict.fromkeys([*columns, *(column for column in optional if column in there)]))
    for column in read:
        if column not in there:
            raise UsageError(f"{name} has no column {column!r}; valid: {', '.join(there)}")
        if there.count(column) > 1:
            raise UsageError(f"{name} has several columns {column!r}; valid: names that one column has")
    return read
