"""`unskew cluster`: a Spark standalone cluster on this machine, to try CLUSTER mode."""

from typing import Annotated

import typer

from unskew.deploy.servers.process import ForegroundCommand
from unskew.deploy.servers.spark_cluster import SparkCluster, clusters_directory
from unskew.errors import EnvironmentFault


def cluster(
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Tasks that each worker runs at once.")] = 1,
    memory: Annotated[int, typer.Option(min=512, help="Memory of each worker's executor (MiB).")] = 1024,
) -> None:
    """Start a Spark master and workers on this machine, and run them until Ctrl-C."""
    print(f"starting a Spark master and {workers} workers ...", flush=True)
    with SparkCluster(clusters_directory(), workers=workers, cores=cores, memory_mb=memory) as running:
        foreground = ForegroundCommand()
        print(f"Spark is ready at {running.master}")
        print(f"use it:          unskew topology CLUSTER ... --master {running.master}")
        print(f"                 (executors have {memory} MiB: --conf spark.executor.memory={memory}m)")
        print(f"its secret:      {running.secret_file} (unskew finds it)")
        print(f"logs:            {running.directory}")
        print("stop it:         Ctrl-C", flush=True)
        if not foreground.stay(lambda: running.alive):
            raise EnvironmentFault(f"the Spark master has ended; see the logs in {running.directory}")
    print("\nstopped")
