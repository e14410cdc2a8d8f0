"""NEXMark's query 16 in Spark itself: ``transformWithState`` with a value and a map.

    python channels.py BOOTSTRAP TOPIC OUTPUT WORKERS CHECKPOINT JARS

Spark's SQL counts nothing distinct in a stream. After https://spark.apache.org/docs/latest/streaming/
structured-streaming-transform-with-state.html ("Value state", "Map state") and
.../structured-streaming-kafka-integration.html. Each entry of the map costs a call to the JVM. So a batch's bids of a
channel are counted first, and each id that they have is looked up once.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evidence.engines.jobs import STATISTICS
from evidence.engines.queries import messages, session, stateful, write

BATCH = 400_000  # records
BID = "bid struct<auction long, bidder long, price long, channel string, dateTime string>"
_COUNTS = ", ".join(f"{name} long" for name in STATISTICS)


class Channel(StatefulProcessor):
    """The statistics of a channel and day."""

    def init(self, handle: Any) -> None:
        self._row = handle.getValueState("row", f"minute string, {_COUNTS}")
        self._seen = handle.getMapState("seen", "kind int, id long", "ranks int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        minute, *counts = self._row.get() or ("", *([0] * len(STATISTICS)))
        seen: defaultdict[tuple[int, int], int] = defaultdict(int)
        for bid in rows:
            rank = 1 if bid["price"] < 10_000 else 2 if bid["price"] < 1_000_000 else 3
            counts[0] += 1
            counts[rank] += 1
            minute = max(minute, bid["minute"])
            for kind, of in ((1, bid["bidder"]), (2, bid["auction"])):
                seen[kind, of] |= 1 << rank
        for place, ranks in seen.items():
            (before,) = self._seen.getValue(place) or (0,)
            new = ranks & ~before
            if new:
                counts[4 * place[0]] += not before
                for rank in (1, 2, 3):
                    counts[4 * place[0] + rank] += new >> rank & 1
                self._seen.updateValue(place, (before | ranks,))
        self._row.update((minute, *counts))
        yield Row(day=key[0], channel=key[1], minute=minute, **dict(zip(STATISTICS, counts, strict=True)))

    def close(self) -> None:
        """Nothing is open."""


def main() -> None:
    bootstrap, topic, output, workers, checkpoint, jars = sys.argv[1:]
    spark = session("transformWithState", workers, jars, stateful(workers) | {"spark.driver.memory": "2g"})
    read = messages(spark, bootstrap, topic, BATCH)
    bids = read.select(F.from_json(F.col("value").cast("string"), BID)["bid"].alias("bid")).select("bid.*")
    at = F.col("dateTime")
    rows = (
        bids.withColumns({"day": at.substr(1, 10), "minute": at.substr(12, 5)})
        .groupBy("day", "channel")
        .transformWithState(Channel(), f"day string, channel string, minute string, {_COUNTS}", "Append", "None")
    )
    write(
        rows.select(F.concat_ws(" ", "day", "channel").alias("key"), F.to_json(F.struct("*")).alias("value")),
        bootstrap,
        output,
        checkpoint,
    )


if __name__ == "__main__":
    main()
