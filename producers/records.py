"""Messages as the client's batch call wants them."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from producers.dataset import Block


class Records:
    """Turns blocks into arrays of records, ``{"value": bytes}``.

    Equal messages of a dictionary share one record, and records are used again for the next block: making them anew
    takes longer than anything else here. (The client copies what it sends.)
    """

    def __init__(self) -> None:
        self._pool: list[dict[str, Any]] = []
        self._array = np.empty(0, dtype=object)

    def of(self, block: Block) -> NDArray[np.object_]:
        """The records of a block, object[n]; valid until the next call."""
        coded = isinstance(block.messages, pa.DictionaryArray)
        values = (block.messages.dictionary if coded else block.messages).to_pylist()
        if len(values) > len(self._pool):
            self._pool = [{"value": b""} for _ in values]
            self._array = np.array(self._pool, dtype=object)
        for record, value in zip(self._pool, values, strict=False):
            record["value"] = value
        return self._array[block.messages.indices.to_numpy()] if coded else self._array[: len(block)]
