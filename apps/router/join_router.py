"""The router of one side of a join: a row goes to one worker, or to all places of its key (``grouping.split_join``)."""

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.apps.metrics.task_reports import RouterReport
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import Packer
from unskew.grouping.keys import encode_keys
from unskew.grouping.split_join.plan import JoinRouter, JoinTable
from unskew.spark.micro_batches import get_batch_number, get_partition


def make_join_router(routing: Routing, side: int, *, outer: bool) -> Callable[[Iterator[pa.RecordBatch]], Any]:
    """The router as a function for ``DataFrame.mapInArrow``: record batches → packets. The routing's grouping isn't
    used.

    The rows' first column is their key, the second their time. If ``outer``, each row gets two more columns after
    these, that tell it from all others of its side: ``origin``, of the batch and the source, and ``number``.
    """

    def packets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        routing.require_visible()
        batch, source = get_batch_number() or 0, get_partition()
        table = JoinTable.of(routing.plan_state(batch).active)
        router = JoinRouter(table, side, routing.workers, routing.seed, source, batch)
        packer, tuples, seconds = Packer(routing.workers), 0, 0.0
        for rows in chain([first], filled):
            started = time.perf_counter()
            keys = rows.column(0).dictionary_encode()
            taken, workers = router.route(encode_keys(keys))
            if keys.null_count:  # they meet nobody, so anyone may keep them
                null = keys.is_null().to_numpy(zero_copy_only=False)[taken]
                workers[null] = (tuples + taken[null]) % routing.workers
            sent = rows.set_column(0, rows.schema.names[0], keys)
            if outer:
                numbers = np.arange(tuples, tuples + rows.num_rows)
                sent = sent.add_column(2, "number", pa.array(numbers))
                sent = sent.add_column(2, "origin", pa.array(np.full(rows.num_rows, (batch << 20) + source)))
            tuples += rows.num_rows
            seconds += time.perf_counter() - started
            yield from packer.add(sent.take(pa.array(taken)) if len(taken) > sent.num_rows else sent, workers)
        yield from packer.flush()
        if routing.reports is not None:
            routing.reports.send(batch, source, RouterReport(tuples, seconds, 0, {}, None, 0.0))

    return packets
