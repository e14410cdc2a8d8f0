"""Messages as the client's batch call wants them."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.producers.dataset import Block


class Records:
    """Turns blocks into arrays of records, ``{"value": bytes}``, with a ``"key"`` too if ``keyed``.

    Equal messages of a dictionary share one record, and records are used again for the next block: making them anew
    takes longer than anything else here. (The client copies what it sends.)
    """

    def __init__(self, *, keyed: bool = False) -> None:
        self._keyed = keyed
        self._pool: list[dict[str, Any]] = []
        self._array = np.empty(0, dtype=object)

    def of(self, block: Block) -> NDArray[np.object_]:
        """The records of a block, object[n]; valid until the next call."""
        messages = block.messages
        codes = None
        if isinstance(messages, pa.DictionaryArray):
            if self._keyed:
                messages = messages.dictionary_decode()
            else:
                codes, messages = messages.indices.to_numpy(), messages.dictionary
        self._fill("value", messages)
        if self._keyed:
            self._fill("key", block.first_keys())
        return self._array[: len(block)] if codes is None else self._array[codes]

    def _fill(self, field: str, values: pa.Array) -> None:
        if len(values) > len(self._pool):
            self._pool = [{"value": b""} for _ in range(len(values))]
            self._array = np.array(self._pool, dtype=object)
        for record, value in zip(self._pool, values.to_pylist(), strict=False):
            record[field] = value
