"""What a keyed work tells, as records of the run's results topic."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.topology.messages import ID_DIGITS, NO_WINDOW


def to_messages(rows: DataFrame, identity: Sequence[str], batch_ms: int) -> DataFrame:
    """The records: columns ``key`` and ``value``.

    Parameters
    ----------
    rows : DataFrame
        window (null where states outlive windows), key, result (a struct).
    identity : sequence of str
        The fields of the result that tell it from the others of its key and window: with them they are the Kafka key,
        so that what is told again overwrites itself.
    batch_ms : int
        The batch's time: the timestamp of what has no window.

    """
    start = F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")  # our sessions are in UTC
    own = [F.to_json(F.struct(*(F.col(f"result.{name}") for name in identity)))] if identity else []
    kafka_key = F.concat_ws("/", F.coalesce(start, F.lit(NO_WINDOW)), F.col("key"), *own)
    timestamp = F.coalesce(F.unix_millis("window.end"), F.lit(batch_ms).cast("long"))
    body = F.struct(
        "key",
        F.substring(F.sha2(kafka_key, 256), 1, ID_DIGITS).alias("messageId"),
        timestamp.alias("timestamp"),
        F.struct("key", start.alias("window")).alias("tags"),
        F.struct("result.*").alias("fields"),
    )
    return rows.select(kafka_key.alias("key"), F.to_json(body).alias("value"))
