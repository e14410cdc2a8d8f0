"""What becomes of a query's error: which end the run, and after which the batch is tried again."""

import pytest
from pyspark.errors import StreamingQueryException

from unskew.apps.driver.termination import ContestedCheckpoint, LatePython, translate_failure
from unskew.errors import EnvironmentFault

# As Spark 4.2 has them: of the log of planned batches and that of commits, and of their files.
OF_A_LOG = (
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.\n"
    "Please make sure only one streaming job runs on a specific checkpoint location at a time. SQLSTATE: 40000"
)
OF_A_FILE = (
    "java.util.ConcurrentModificationException: Multiple streaming queries are concurrently using file:/c/commits"
)
LATE = "org.apache.spark.SparkException: Python worker failed to connect back."


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (OF_A_LOG, ContestedCheckpoint),
        (OF_A_FILE, ContestedCheckpoint),
        (LATE, LatePython),
        ("java.io.IOException: x", EnvironmentFault),
    ],
)
def test_a_batch_is_tried_again_if_another_driver_was_at_it_or_python_was_late(text, kind):
    assert type(translate_failure(StreamingQueryException(text))) is kind
