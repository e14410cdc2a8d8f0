"""Whether the executors of a cluster see the checkpoint that the driver sees."""

import posixpath
import socket
import uuid
from collections.abc import Iterable, Iterator

from pyarrow import fs
from pyspark.sql import SparkSession

from unskew.apps.checkpoint.versions import filesystem
from unskew.errors import UsageError


def require_visible(spark: SparkSession, location: str) -> None:
    """Let a task on each core look for a file that the driver has written there.

    A path of the driver's own disk would else be one of each executor's: routers would keep their state where the next
    batch's may not find it, and Spark its own where a lost executor takes it along.

    Raises
    ------
    UsageError
        A task doesn't see it.

    """
    files, folder = filesystem(location)
    mark = posixpath.join(folder, "unskew", f".seen-{uuid.uuid4().hex}")
    with files.open_output_stream(mark) as stream:
        stream.write(b"")
    name = posixpath.basename(mark)

    def look(_: Iterable[int]) -> Iterator[str]:
        there, path = filesystem(location)
        found = there.get_file_info(posixpath.join(path, "unskew", name))
        if found.type == fs.FileType.NotFound:
            yield socket.gethostname()

    try:
        cores = spark.sparkContext.defaultParallelism
        blind = spark.sparkContext.parallelize(range(cores), cores).mapPartitions(look).collect()
    finally:
        files.delete_file(mark)
    if blind:
        raise UsageError(
            f"the checkpoint {location} is not seen by executors on {', '.join(sorted(set(blind)))}; "
            "valid with CLUSTER: a location that all machines share (a network file system, hdfs://…)"
        )
