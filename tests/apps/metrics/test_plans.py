"""How a batch was planned, as metrics: of groupings that plan batches, and of no others."""

from dataclasses import replace

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.metrics_reporter import MetricsReporter, sample_batch
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.metrics.task_reports import PlanSummary

PLAN = PlanSummary(waves=3, added=12, split=5, waited=0.04)


def test_all_of_it_is_a_metric():
    batch = report([1, 3])
    none, [sample] = (
        [s for s in sample_batch(b) if s.subject == catalogue.PLANNER] for b in (batch, replace(batch, plan=PLAN))
    )
    assert none == []
    assert sample.values == {"waves": 3, "added": 12, "split": 5, "waited": 0.04}
    assert sample.values.keys() == {metric.name for metric in catalogue.list_metrics(catalogue.PLANNER)}


def test_the_page_has_it_once_a_batch_is_planned(tmp_path):
    run = settings(grouping="PLANNED", checkpoint=str(tmp_path))
    with Outputs(Destinations(prometheus_port=0)) as outputs:
        monitor = MetricsReporter(run, outputs)
        monitor.batch(report([2, 2]))
        assert not [family.name for family in outputs.exporter.collect() if "planner" in family.name]
        monitor.batch(replace(report([2, 2]), plan=PLAN))
        page = {family.name: family.samples[0].value for family in outputs.exporter.collect()}
    assert page["unskew_planner_waves"] == 3
    assert page["unskew_planner_waited_seconds"] == 0.04
