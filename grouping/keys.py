"""Keys as the groupings see them: codes into the distinct keys of a batch, each hashed once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

KeyArray: TypeAlias = "pa.Array | pa.ChunkedArray | NDArray[Any] | Sequence[Any] | Keys"

# The key that stands for "no key": nulls are tuples too and go where this one goes.
_NULL = b"\x00unskew:null"


@dataclass(frozen=True, slots=True)
class Keys:
    """A batch of n keys, k of them distinct.

    Attributes
    ----------
    codes : int32[n]
        Position of each tuple's key in ``hashes`` and ``distinct``. Read-only.
    hashes : uint64[k]
        mmh3 (64 bit) of each distinct key: the key's identity for every grouping, in every batch and process.
        Read-only.
    distinct : pyarrow.Array[k]
        The keys themselves, for those who must name them (the hottest keys, a routing table).

    A key is identified by its hash, not by its code: an Arrow dictionary may hold a value twice.

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
        """The keys of these codes as text, for people to read: bytes as UTF-8, null as ``null``."""
        named = [self.distinct[int(code)].as_py() for code in codes]
        return [
            "null" if key is None else key.decode(errors="replace") if isinstance(key, bytes) else str(key)
            for key in named
        ]


def encode(keys: KeyArray) -> Keys:
    """Encode keys of any type: O(n) to find the distinct ones, one mmh3 for each of them.

    Parameters
    ----------
    keys : pyarrow.Array or ChunkedArray, numpy.ndarray, sequence, or Keys
        Strings, bytes, integers, or a dictionary of them; nulls are one key of their own. Equal text hashes
        alike as ``str`` or ``bytes``; integers of every width hash alike.

    Raises
    ------
    TypeError
        The keys are of another type (floating point has no exact identity: cast it first).

    Examples
    --------
    >>> keys = encode(["tr", "de", "tr"])
    >>> keys.codes.tolist(), keys.distinct.to_pylist()
    ([0, 1, 0], ['tr', 'de'])
    >>> bool(keys.hashes[0] == encode([b"tr"]).hashes[0])
    True

    """
    if isinstance(keys, Keys):
        return keys
    array = keys if isinstance(keys, (pa.Array, pa.ChunkedArray)) else pa.array(keys)
    if isinstance(array, pa.ChunkedArray):
        # combine_chunks of an empty chunked array is a chunked array still
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode(null_encoding="encode")
    elif array.null_count:
        array = array.cast(array.type.value_type).dictionary_encode(null_encoding="encode")
    return Keys(array.indices.to_numpy(zero_copy_only=False), hash_keys(array.dictionary), array.dictionary)


def hash_keys(distinct: pa.Array) -> NDArray[np.uint64]:
    """The 64-bit mmh3 of each key, uint64[k]."""
    kind = distinct.type
    if pa.types.is_integer(kind):
        if pa.types.is_uint64(kind):
            distinct = distinct.view(pa.int64())
        raw = pc.fill_null(distinct.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
        values = [raw[at : at + 8] for at in range(0, len(raw), 8)]
        if distinct.null_count:
            values = [v if ok else _NULL for v, ok in zip(values, distinct.is_valid().to_pylist(), strict=True)]
    elif (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        values = [_NULL if v is None else v for v in distinct.to_pylist()]
    else:
        raise TypeError(
            f"keys of type {kind} can't be hashed; valid: strings, bytes, integers, or a dictionary of them"
        )
    digest = mmh3.mmh3_x64_128_digest
    buffer = b"".join([digest(v if isinstance(v, bytes) else v.encode()) for v in values])
    return np.frombuffer(buffer, dtype="<u8")[::2].astype(np.uint64)
