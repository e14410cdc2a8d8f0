"""The merger of an outer join: of a row that is copied to several workers, it knows whether any copy has a partner.

All copies of a row leave in the same batch, because the watermark is the same everywhere. So a merger keeps no state.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.apps.checkpoint.overflow import Overflow, fetch_blob
from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.join_state import make_alone
from unskew.apps.worker.joining.row_table import MATCHED, NUMBER, ORIGIN
from unskew.apps.worker.stateful.config import WorkerBatch
from unskew.apps.worker.stateful.operator_output import OUT, RESULTS, Parcel, pack_rows, read_rows, split_by_window
from unskew.apps.worker.stateful.tasks import make_rows
from unskew.spark.micro_batches import get_batch_number


def make_outer_merger(config: JoinConfig, tokens: list[int]) -> Any:
    """The mergers as a function for ``DataFrame.mapInArrow`` over workers' parcels, each in its merger's partition."""

    def parcels(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fragments: list[dict[str, Any]] = []
        schema = None
        for batch in batches:
            schema = batch.schema
            out = [kind in OUT for kind in batch.column("kind").to_pylist()]
            yield batch.filter(pa.array(out))
            fragments += batch.filter(pa.array([not each for each in out])).to_pylist()
        if not fragments:
            return
        fragments.sort(key=lambda row: (row["sender"], row["number"]))
        merger, first = fragments[0]["merger"], fragments[0]
        batch = WorkerBatch(get_batch_number() or 0, first["batch_ms"], first["watermark_ms"])
        blobs = (fetch_blob(bytes(row["blob"]), config.checkpoint) for row in fragments)
        merged = merge_copies([read_rows(blob) for blob in blobs], merger, config)
        overflow = Overflow(config.checkpoint, config.most)
        for row in make_rows(merged, tokens, "merger", merger, batch, overflow):
            yield pa.RecordBatch.from_pylist([row.asDict()], schema=schema)

    return parcels


def merge_copies(parts: list[pa.RecordBatch], merger: int, config: JoinConfig) -> Iterator[Parcel]:
    """The results for the rows of which no copy has a partner."""
    for side in (0, 1):
        own = [rows for part in parts for of, rows in split_by_window(part) if of == side]
        if not own:
            continue
        rows = pa.concat_batches(own)
        names = np.stack([rows.column(name).to_numpy() for name in (ORIGIN, NUMBER)], axis=1)
        _, first, copy_of = np.unique(names, axis=0, return_index=True, return_inverse=True)
        matched = np.zeros(len(first), np.bool_)
        matched[copy_of.reshape(-1)[rows.column(MATCHED).to_numpy(zero_copy_only=False).astype(np.bool_)]] = True
        alone = make_alone(rows.take(pa.array(first[~matched])), side, config)
        yield from pack_rows(RESULTS, merger, [(0, alone)])
