"""Batches whose results come later than the trigger are counted, beside those that don't."""

import time
from dataclasses import replace

import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs


def planned(seconds_ago, end=5):
    done = report([2, 3])
    at = round(1000 * (time.time() - seconds_ago))
    return replace(done, batch=replace(done.batch, planned_ms=at, start={"t": {"0": 0}}, end={"t": {"0": end}}))


@pytest.mark.parametrize(("trigger", "expected"), [(10.0, (2, 1)), (0.0, (None, None))])
def test_a_batch_with_messages_is_slow_or_within_the_trigger(tmp_path, trigger, expected):
    with Outputs(Destinations(prometheus_port=0)) as outputs:
        monitor = MetricsReporter(settings(checkpoint=str(tmp_path), trigger=trigger), outputs)
        for batch in (planned(1), planned(60), planned(60, end=0)):
            monitor.batch(batch)
        page = {family.name: family.samples[0].value for family in outputs.exporter.collect()}
    assert (page.get("unskew_query_batches"), page.get("unskew_query_slow_batches")) == expected
