"""The merger of an outer join: decides whether any copy of a row at several workers has a partner.

All copies of a row leave in the same batch, because all workers have the same watermark. So it keeps no state.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.join_state import SIDES, make_alone
from unskew.apps.worker.joining.row_table import MATCHED, NUMBER, ORIGIN
from unskew.apps.worker.stateful.config import WorkerBatch
from unskew.apps.worker.stateful.operator_output import RESULTS, Parcel, pack_rows, read_rows, split_by_window


def merge_copies(config: JoinConfig, parcels: Sequence[Parcel], merger: int, _batch: WorkerBatch) -> Iterator[Parcel]:
    """The results of the rows of which no copy has a partner, from a merger's parcels (``tasks.Merge``)."""
    parts = [read_rows(parcel.blob) for parcel in parcels]
    for side in SIDES:
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
