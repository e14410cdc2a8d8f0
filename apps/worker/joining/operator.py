"""A join's worker as an operator of Spark's ``transformWithState``.

Like ``unskew.apps.worker.stateful.operator``, it defers imports until the first row comes.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row

from unskew.apps.worker.stateful.operator import WorkerOperator


class JoinOperator(WorkerOperator):
    """A join's worker: packets of both sides in, parcels of pairs out. An even source has rows of the left side."""

    def _list_packets(self, arrived: list[Any]) -> list[Any]:
        return [(row["source"] % 2, bytes(row["packet"])) for row in arrived if row["packet"] is not None]

    def _run(self, *given: Any, empty: bool) -> Iterator[Row]:
        from unskew.apps.worker.joining.worker import run_join_batch
        from unskew.apps.worker.stateful import tasks

        return tasks.run_worker(self._config, self._tokens, self._state, *given, empty=empty, run=run_join_batch)
