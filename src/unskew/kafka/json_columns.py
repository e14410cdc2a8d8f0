"""JSON text for whole columns of messages."""

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_QUOTE, _BACKSLASH, _SPACE = 0x22, 0x5C, 0x20


def quote_texts(texts: pa.Array) -> pa.StringArray:
    r"""Each string as a JSON string, string[n]. The array is plain or a dictionary.

    The JSON is UTF-8 with minimal escapes. Nearly all strings have no quotes, backslashes or control characters, and
    need only be copied.

    Examples
    --------
    >>> quote_texts(pa.array(["Ad Astra", 'the "Boss"'])).to_pylist()
    ['"Ad Astra"', '"the \\"Boss\\""']

    """
    if isinstance(texts, pa.DictionaryArray):
        return quote_texts(texts.dictionary).take(texts.indices)
    special = _find_escapes(texts)
    plain = join_columns('"', texts, '"')
    if not len(special):
        return plain
    mask = np.zeros(len(texts), bool)
    mask[special] = True
    escaped = pa.array([orjson.dumps(text).decode() for text in texts.take(pa.array(special)).to_pylist()], pa.string())
    return pc.call_function("replace_with_mask", [plain, pa.array(mask), escaped])


def join_columns(*parts: pa.Array | str) -> pa.StringArray:
    """Concatenate strings per row, string[n]. A part is a column or a constant."""
    columns = [pa.scalar(part, pa.string()) if isinstance(part, str) else part for part in parts]
    return pc.call_function("binary_join_element_wise", [*columns, pa.scalar("", pa.string())])


def format_integers(numbers: NDArray[np.integer]) -> pa.StringArray:
    """Integers as JSON numbers, string[n]."""
    return pc.cast(pa.array(numbers), pa.string())


def _find_escapes(texts: pa.StringArray) -> NDArray[np.int64]:
    """The indices of strings with a character that JSON escapes, int64, ascending."""
    if not len(texts):
        return np.empty(0, np.int64)
    _, offsets, data = texts.buffers()
    if data is None:
        return np.empty(0, np.int64)
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    used = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    found = np.flatnonzero((used < _SPACE) | (used == _QUOTE) | (used == _BACKSLASH)) + bounds[0]
    return np.unique(np.searchsorted(bounds, found, side="right") - 1)
