"""States that are lists, one per key, as flat entries with slots and back, to change all lists at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def flatten_lists(lists: pa.ListArray, slots: NDArray[np.int32] | None = None) -> pa.Table:
    """The entries of n lists of structs: a table of ``slot`` (int32) and the structs' fields, in the lists' order.

    ``slots``, int32[n], are those of the lists. Without them, list *i* has slot *i*. A null has no entries.
    """
    flat: Any = lists.flatten()
    names = [field.name for field in lists.type.value_type]
    return pa.table([repeat_slots(lists, slots), *flat.flatten()], names=["slot", *names])


def repeat_slots(lists: pa.ListArray, slots: NDArray[np.int32] | None = None) -> pa.Array:
    """The slot of each entry of n lists, int32."""
    lengths = count_entries(lists)
    owners = np.arange(len(lists), dtype=np.int32) if slots is None else slots
    return pa.array(np.repeat(owners, lengths), pa.int32())


def count_entries(lists: pa.ListArray) -> NDArray[np.int64]:
    """The length of each list; a null has 0."""
    return pc.fill_null(lists.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def build_lists(flat: pa.Table, keys: int, kind: pa.ListType, *, empty: bool = True) -> pa.ListArray:
    """The lists of structs of k keys, from entries ordered by slot. Keys without entries get an empty list, or null."""
    fields = list(kind.value_type)
    arrays = [combine_column(flat, field.name).cast(field.type) for field in fields]
    return gather_lists(
        combine_column(flat, "slot"), pa.StructArray.from_arrays(arrays, fields=fields), keys, kind, empty=empty
    )


def gather_lists(
    slots: pa.Array, values: pa.Array, keys: int, kind: pa.ListType, *, empty: bool = True
) -> pa.ListArray:
    """As ``build_lists``, but from an array of values ordered by slot instead of a table of structs."""
    lengths = np.bincount(slots.to_numpy(), minlength=keys)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    nulls = None if empty else pa.array(lengths == 0)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind, mask=nulls)


def wrap_values(values: pa.Array, kind: pa.ListType) -> pa.ListArray:
    """A list of one value for each of n values."""
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values, type=kind)


def wrap_entries(columns: Sequence[pa.Array], kind: pa.ListType) -> pa.ListArray:
    """A list of one struct for each of n rows of the structs' fields."""
    return wrap_values(pa.StructArray.from_arrays(columns, fields=list(kind.value_type)), kind)


def combine_column(flat: pa.Table, name: str) -> pa.Array:
    chunks = flat.column(name)
    return chunks.chunk(0) if chunks.num_chunks == 1 else pa.concat_arrays(chunks.chunks or [pa.array([], chunks.type)])


def sort_entries(flat: pa.Table, *names: str) -> pa.Table:
    """The entries ordered by slot, then by these columns; ``-name`` orders by that column descending."""
    keys = [("slot", "ascending")]
    keys += [(name[1:], "descending") if name.startswith("-") else (name, "ascending") for name in names]
    return flat.sort_by(keys)


def reduce_entries(flat: pa.Table, by: str, **how: str) -> pa.Table:
    """One entry for each slot and value of ``by``; the others are aggregated as in ``count="sum"``, ``time="min"``."""
    done = flat.group_by(["slot", by], use_threads=False).aggregate(list(how.items()))
    return done.select(["slot", by, *(f"{name}_{function}" for name, function in how.items())]).rename_columns(
        ["slot", by, *how]
    )


def rank_entries(slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """The position of each entry among those of its slot; the entries are ordered by slot."""
    first = np.searchsorted(slots, slots, side="left")
    return np.arange(len(slots)) - first
