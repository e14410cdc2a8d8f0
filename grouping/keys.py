"""Encodes keys for groupings as codes into a batch's distinct keys, each of which is hashed once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.hashing import hash_with_murmur

KeyArray: TypeAlias = "pa.Array | pa.ChunkedArray | NDArray[Any] | Sequence[Any] | Keys"

# The hash of null, which is a separate key.
_NULL = np.uint64(0x6E756C6C5F6B6579)


@dataclass(frozen=True, slots=True)
class Keys:
    """A batch of n keys, k of them distinct.

    Attributes
    ----------
    codes : int32[n]
        The position of each tuple's key in ``hashes`` and ``distinct``. Read-only.
    hashes : uint64[k]
        The 64-bit mmh3 of each distinct key, which identifies it for every grouping, batch and process. Read-only.
    distinct : pyarrow.Array[k]
        The keys themselves, for naming the hottest keys or a routing table's.

    A key is identified by its hash, not its code, because an Arrow dictionary may have a value twice.

    """

    codes: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    distinct: pa.Array

    def __post_init__(self) -> None:
        # Always contiguous and read-only, so that each kernel is compiled for one type of argument.
        for field, dtype in (("codes", np.int32), ("hashes", np.uint64)):
            view = np.ascontiguousarray(getattr(self, field), dtype=dtype).view()
            view.flags.writeable = False
            object.__setattr__(self, field, view)

    def __len__(self) -> int:
        return len(self.codes)

    def texts(self, codes: Sequence[int]) -> list[str]:
        """The keys of these codes as text for display. Bytes are decoded as UTF-8, and null is ``null``."""
        named = [self.distinct[int(code)].as_py() for code in codes]
        return [
            "null" if key is None else key.decode(errors="replace") if isinstance(key, bytes) else str(key)
            for key in named
        ]


def encode_keys(keys: KeyArray) -> Keys:
    """Encode keys of any type. Time O(n) to find the distinct keys, and one mmh3 for each of them.

    Parameters
    ----------
    keys : pyarrow.Array or ChunkedArray, numpy.ndarray, sequence, or Keys
        Strings, bytes, integers, or a dictionary of them. Null is a separate key. Equal text has the same hash as
        ``str`` and as ``bytes``. Equal integers of any width have the same hash.

    Raises
    ------
    TypeError
        The keys have another type, or several. Cast floating-point keys first: they have no exact identity.

    Examples
    --------
    >>> keys = encode_keys(["tr", "de", "tr"])
    >>> keys.codes.tolist(), keys.distinct.to_pylist()
    ([0, 1, 0], ['tr', 'de'])
    >>> bool(keys.hashes[0] == encode_keys([b"tr"]).hashes[0])
    True

    """
    if isinstance(keys, Keys):
        return keys
    require_keys(keys)
    array = _to_arrow(keys)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    _check_type(array.type)
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_null(array.type) or pa.types.is_string_view(array.type):
            array = array.cast(pa.string())  # Arrow doesn't encode a view's nulls
        elif pa.types.is_binary_view(array.type):
            array = array.cast(pa.binary())
        array = array.dictionary_encode(null_encoding="encode")
    codes, distinct = array.indices, array.dictionary
    if codes.null_count:
        codes = codes.cast(pa.int32()).fill_null(len(distinct))
        distinct = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
    positions = codes.to_numpy(zero_copy_only=False)
    if len(distinct) > 2 * len(positions):  # a slice of an array with a large dictionary: hash only what occurs in it
        occurs = np.zeros(len(distinct), np.bool_)
        occurs[positions] = True
        positions = (np.cumsum(occurs) - 1)[positions]
        distinct = distinct.filter(pa.array(occurs))
    return Keys(positions, hash_keys(distinct), distinct)


def _to_arrow(keys: Any) -> Any:
    """Keys as Arrow has them, an array or a chunked one."""
    try:
        return keys if isinstance(keys, (pa.Array, pa.ChunkedArray)) else pa.array(keys)
    except pa.ArrowException as error:
        raise TypeError(f"keys of one type are needed: {str(error).splitlines()[0]}") from error
    except OverflowError:
        raise TypeError("keys has an integer that int64 can't hold; valid: text, or an array of uint64") from None
    except UnicodeEncodeError as error:
        raise TypeError(f"keys has {error.object!r}, which isn't UTF-8; valid: text without surrogates") from None


def require_keys(keys: KeyArray) -> None:
    """Raise ``TypeError`` for what isn't an array of keys.

    A string or bytes would be taken for a sequence of one-letter keys.
    """
    if isinstance(keys, str | bytes | bytearray | memoryview):
        raise TypeError(f"keys is {keys!r}; valid: a list or an array of keys, such as [{keys!r}]")
    if not hasattr(keys, "__len__") or getattr(keys, "shape", None) == ():
        raise TypeError(f"keys is {keys!r}; valid: a list or an array of keys")


def make_null_keys(n: int) -> Keys:
    """Null keys of n tuples, for a scheme that doesn't use keys. O(n), a fraction of a nanosecond per tuple."""
    return Keys(np.zeros(n, np.int32), np.array([_NULL]), pa.nulls(1))


def keys_from_hashes(hashes: NDArray[np.uint64]) -> Keys:
    """Distinct keys with known hashes only. Their ``distinct`` is null."""
    return Keys(np.arange(len(hashes), dtype=np.int32), hashes, pa.nulls(len(hashes)))


def sum_by_key(codes: NDArray[np.integer], values: ArrayLike, k: int) -> NDArray[np.int64]:
    """The exact sum of the integer values of each of k keys, int64[k]. A weighted ``np.bincount`` isn't exact.

    ``codes`` are the values' keys, in [0, k). Sums wrap around as int64 does.

    >>> sum_by_key(np.array([0, 2, 0]), [2**53, 5, 1], 3).tolist()
    [9007199254740993, 0, 5]
    """
    sums = np.zeros(k, np.int64)
    np.add.at(sums, codes, np.asarray(values).astype(np.int64, copy=False))
    return sums


def hash_keys(distinct: pa.Array) -> NDArray[np.uint64]:
    """The 64-bit mmh3 of each key's bytes: uint64[k].

    A str's bytes are UTF-8, an integer's are 8, little-endian.
    """
    if pa.types.is_integer(distinct.type):
        numbers = distinct.view(pa.int64()) if pa.types.is_uint64(distinct.type) else distinct.cast(pa.int64())
        data = pc.fill_null(numbers, 0).to_numpy().astype("<i8").tobytes()
        ends = np.arange(0, len(data) + 1, 8, dtype=np.int64)
        keys = pa.Array.from_buffers(pa.large_binary(), len(distinct), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    else:
        keys = distinct.cast(pa.large_binary())
    hashes = hash_with_murmur(keys)
    if distinct.null_count:
        hashes[distinct.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def _check_type(kind: pa.DataType) -> None:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(fits(values) for fits in (*_TEXT, pa.types.is_integer, pa.types.is_null)):
        raise TypeError(
            f"keys of type {kind} can't be hashed; valid: strings, bytes, integers, or a dictionary of them"
        )
