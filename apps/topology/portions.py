"""How many rows go from Spark to Python at a time: as many as one can be sure of.

Spark ends an Arrow batch at so many rows, or so many bytes. To know the bytes, it adds up all the batch's buffers after
each row: a quarter of all that a small message costs. Where samples of a topic say how many rows are so many bytes, it
needn't.
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from unskew.apps.topology.settings import Settings

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNCHECKED = 2**31 - 1  # of bytes, which means to Spark: don't look

MOST_ROWS, MOST_BYTES = 65_536, 64 << 20
#: Tuples of a batch, of which the workers' tasks get their keys, and no more, at a time.
MOST_TUPLES = 5_000_000
_SMALL = {"partition", "offset", "timestamp", "timestampType"}


def set_portions(spark: SparkSession, settings: Settings, samples: Sequence[bytes]) -> None:
    """Set it for the session's next query; what the settings say themselves is left as it is.

    ``samples`` are messages of the topic. Where there are none, or where the workers get more than keys, Spark looks.
    """
    rows, size = MOST_ROWS, MOST_BYTES
    if samples and set(settings.carried) <= _SMALL and settings.batch_limit <= MOST_TUPLES:
        rows, size = min(rows, max(1, MOST_BYTES // max(1, *map(len, samples)))), _UNCHECKED
    for name, value in {ROWS: rows, _BYTES: size}.items():
        if name not in settings.conf:
            spark.conf.set(name, str(value))
