"""JSON text for whole columns at a time."""

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_QUOTE, _BACKSLASH, _SPACE = 0x22, 0x5C, 0x20


def quoted(texts: pa.Array) -> pa.StringArray:
    r"""Each text, plain or of a dictionary, as a JSON string: string[n]; UTF-8, only what must be is escaped.

    Texts without quotes, backslashes and control characters, nearly all in practice, cost a copy and no more.

    Examples
    --------
    >>> quoted(pa.array(["Ad Astra", 'the "Boss"'])).to_pylist()
    ['"Ad Astra"', '"the \\"Boss\\""']

    """
    if isinstance(texts, pa.DictionaryArray):
        return quoted(texts.dictionary).take(texts.indices)
    odd = _with_escapes(texts)
    plain = joined('"', texts, '"')
    if not len(odd):
        return plain
    mask = np.zeros(len(texts), bool)
    mask[odd] = True
    escaped = pa.array([orjson.dumps(text).decode() for text in texts.take(pa.array(odd)).to_pylist()], pa.string())
    return pc.call_function("replace_with_mask", [plain, pa.array(mask), escaped])


def joined(*parts: pa.Array | str) -> pa.StringArray:
    """The parts, columns of text or constants, one after another in each row: string[n]."""
    columns = [pa.scalar(part, pa.string()) if isinstance(part, str) else part for part in parts]
    return pc.call_function("binary_join_element_wise", [*columns, pa.scalar("", pa.string())])


def digits(numbers: NDArray[np.integer]) -> pa.StringArray:
    """Integers as JSON numbers, string[n]."""
    return pc.cast(pa.array(numbers), pa.string())


def _with_escapes(texts: pa.StringArray) -> NDArray[np.int64]:
    """The places of the texts that hold a character which JSON escapes, int64, ascending."""
    if not len(texts):
        return np.empty(0, np.int64)
    _, offsets, data = texts.buffers()
    if data is None:
        return np.empty(0, np.int64)
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    used = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    found = np.flatnonzero((used < _SPACE) | (used == _QUOTE) | (used == _BACKSLASH)) + bounds[0]
    return np.unique(np.searchsorted(bounds, found, side="right") - 1)
