"""The router as functions that Spark runs in its tasks: over a column of keys, or over batches of whole tuples."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from unskew.apps.topology.fields import Fields
from unskew.apps.topology.packets import Packer
from unskew.apps.topology.router import Routing, SourceRouter, milliseconds, partition


def route_column(routing: Routing, uses_source: bool, uses_time: bool) -> Any:
    """The router as a function for ``pyspark.sql.functions.arrow_udf``: arrays of (key[, source][, time]) → worker."""

    def workers(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        router: SourceRouter | None = None
        for columns in batches:
            # Spark passes a lone column as it is, not as a tuple of one.
            key, *rest = (columns,) if isinstance(columns, pa.Array) else columns
            if router is None:
                router = routing.open(rest[0][0].as_py() if uses_source and len(key) else partition())
            times = milliseconds(rest[-1]) if uses_time else None
            yield pa.array(router.route(key, times), pa.int32())
        if router is not None:
            router.close()

    # Spark reads the kind of the function from its hints.
    workers.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    return workers


def route_packets(
    routing: Routing,
    key: str,
    source: str | None,
    time_column: str | None,
    carry: list[str],
    fields: Fields | None = None,
) -> Any:
    """The router as a function for ``DataFrame.mapInArrow``: record batches → packets (see ``packets``).

    A tuple without a key takes no part: it is counted in the report as rejected. Packets carry the columns ``carry``.
    With ``fields``, key and count are read from messages first.
    """

    def packets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router: SourceRouter | None = None
        packer = Packer(routing.workers)
        rejected = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if router is None:
                router = routing.open(batch.column(source)[0].as_py() if source else partition())
                packer = Packer(router.workers)
            read = fields(batch) if fields else batch
            missing = read.column(key).null_count
            tuples = read.filter(read.column(key).is_valid()) if missing else read
            rejected += missing
            if not tuples.num_rows:
                continue
            keys = tuples.column(key).dictionary_encode()
            columns = [keys if name == key else tuples.column(name) for name in carry]
            times = milliseconds(tuples.column(time_column)) if time_column else None
            yield from packer.add(pa.record_batch(columns, carry), router.route(keys, times))
        yield from packer.flush()
        if router is not None:
            router.close(rejected=rejected)

    return packets
