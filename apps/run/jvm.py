"""The death of Spark's JVM under its driver (killed, out of memory): one line for the user, the rest for the log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from unskew.errors import EnvironmentFault

# Its sockets close a moment before it is gone.
_PASSING = 5.0  # s


@contextmanager
def lasting(spark: SparkSession, log_file: Path) -> Iterator[None]:
    """Use this session and stop it at the end; if its JVM dies meanwhile, say so.

    Raises
    ------
    EnvironmentFault
        The JVM died.

    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  pyspark has no public way to the process
    process: Popen[bytes] = gateway.proc
    with _noise_to(log_file, spark):
        try:
            yield
        except (Py4JError, OSError) as error:
            status = _exit_status(process)
            if status is None:
                raise
            how = f"signal {-status}" if status < 0 else f"exit code {status}"
            raise EnvironmentFault(
                f"Spark's JVM died ({how}; was memory short?); start it again, a topology goes on from its checkpoint; "
                f"log: {log_file}"
            ) from error
        finally:
            if process.poll() is None:
                spark.stop()


def _exit_status(process: Popen[bytes]) -> int | None:
    try:
        return process.wait(_PASSING)
    except TimeoutExpired:
        return None


@contextmanager
def _noise_to(log_file: Path, spark: SparkSession) -> Iterator[None]:
    """Send to the file what other libraries log, and the stack trace that each thread has for a JVM that is gone."""
    root, own = logging.getLogger(), logging.getLogger("unskew")
    others = logging.FileHandler(log_file, delay=True)
    ours = logging.lastResort or logging.NullHandler()  # stderr, as without any handler
    server: Any = spark.sparkContext._accumulatorServer  # noqa: SLF001
    server.handle_error = lambda *_: root.error("the accumulators' connection is gone", exc_info=True)
    root.addHandler(others)
    own.addHandler(ours)
    own.propagate = False
    try:
        yield
    finally:
        own.propagate = True
        own.removeHandler(ours)
        root.removeHandler(others)
        others.close()
