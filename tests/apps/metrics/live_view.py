"""Reports and progress of batches, the live view of them as text, and a run's page for Prometheus."""

import io
from datetime import UTC, datetime, timedelta

import numpy as np
from rich.console import Console

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.driver.batch_committer import BatchReport

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def report(loads, windows=()):
    loads = np.array(loads)
    batch = Batch(0, 0, 0, 0, {}, {})
    return BatchReport(batch, loads, loads / 1000, 0, 0, 0.0, {}, Totals(), [(window, Totals()) for window in windows])


def progress(newest, taken=None, seconds=0.0, batch=0, rate=0.0):
    """Spark's progress of a batch: by partition, Kafka's newest offsets (None: it is replayed), and those taken."""

    def by_partition(offsets):
        return {"t": {str(partition): offset for partition, offset in enumerate(offsets)}}

    source = {
        "description": "KafkaV2[Subscribe[t]]",
        "processedRowsPerSecond": rate,
        "endOffset": by_partition(newest if taken is None else taken),
        "latestOffset": None if newest is None else by_partition(newest),
    }
    moment = (BEGIN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    own = {"batchId": batch, "timestamp": moment, "durationMs": {}, "stateOperators": []}
    return {**own, "sources": [source]}


def shown(view, height=30):
    console = Console(file=io.StringIO(), width=120)
    console.print(view.picture(height))
    return console.file.getvalue()


def read_page(outputs):
    """The page for Prometheus: name → the first value."""
    return {family.name: family.samples[0].value for family in outputs.exporter.collect()}
