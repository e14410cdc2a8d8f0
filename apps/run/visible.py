"""Whether the executors of a cluster see the checkpoint that the driver sees."""

import socket
import uuid
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from unskew.apps.checkpoint.place import Place
from unskew.errors import EnvironmentFault, UsageError


def require_visible(spark: SparkSession, place: Place) -> None:
    """Let a task on each core look for a file that the driver has written there.

    A path of the driver's own disk would else be one of each executor's: routers would keep their state where the next
    batch's may not find it, and Spark its own where a lost executor takes it along.

    Raises
    ------
    UsageError
        A task doesn't see it.

    """
    name = f".seen-{uuid.uuid4().hex}"
    folder = place.folder("unskew")
    folder.write(name, b"")

    def look(_: Iterable[int]) -> Iterator[str]:
        try:
            place.folder("unskew").read(name)
        except FileNotFoundError:
            yield socket.gethostname()
        except EnvironmentFault as error:
            yield f"{socket.gethostname()} ({error})"

    try:
        cores = spark.sparkContext.defaultParallelism
        blind = spark.sparkContext.parallelize(range(cores), cores).mapPartitions(look).collect()
    finally:
        folder.remove(name)
    if blind:
        raise UsageError(
            f"the checkpoint {place} is not seen by executors on {', '.join(sorted(set(blind)))}; "
            "valid with CLUSTER: a location that all machines share (a network file system, s3a://…, hdfs://…)"
        )
