"""A KEY run, and a DYNAMIC_KEY run with a keyed operator, over one stream, whose metrics are in real servers."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from tests.apps.conftest import countries, publish, spark  # noqa: F401
from tests.monitoring.conftest import influxd_program, influxdb, prometheus_program  # noqa: F401
from tests.waiting import awaited
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.metrics.recovery import LastLag
from unskew.apps.metrics.task_reports import PlanSummary
from unskew.apps.settings import Settings
from unskew.dashboards.preview.data_sources import DataSources, InfluxDB, Prometheus
from unskew.dashboards.preview.selection import Selection
from unskew.deploy.servers import prometheus
from unskew.deploy.servers.broker import Broker
from unskew.grouping.feedback_loop import Rebalance
from unskew.kafka.connection import Connection
from unskew.operators import Statistics

STREAM = countries((["Turkey"] * 16 + ["Peru", "Chad", "Fiji", "Oman"]) * 200)
QUICK = {"warm_up": 0.0, "check_interval": 0.1, "promotion_period": 0.1}
TOPIC, BUCKET = "dashboards", "dashboards"
RUNS = {"KEY": f"{TOPIC}-s2-w4-kg", "DYNAMIC_KEY": f"{TOPIC}-s2-w4-dkg"}


@dataclass(frozen=True)
class Seen:
    """Where the runs can be seen, and when they were."""

    sources: DataSources
    selection: Selection
    token: str


@pytest.fixture(scope="session")
def seen(kafka: Broker, spark, influxdb, prometheus_program, tmp_path_factory) -> Iterator[Seen]:
    connection = Connection(kafka.bootstrap_servers)
    publish(connection, TOPIC, 2, STREAM)
    begin = datetime.now(UTC)
    target = Destinations.of(influxdb.url, influxdb.token, influxdb.org, BUCKET, 0)
    with ExitStack() as stack:
        with Outputs(target) as outputs:
            assert outputs.exporter
            page = {"unskew": [f"127.0.0.1:{outputs.exporter.port}"]}
            kept = tmp_path_factory.mktemp("prometheus")
            server = stack.enter_context(prometheus.PrometheusServer(kept, targets=page, every=0.2))
            # It looks at a new target some seconds after it has begun itself: a run may be over by then.
            awaited(lambda: server.query("up == 1"), "the page is scraped")
            for grouping in RUNS:
                run = Settings(
                    mode="LOCAL",
                    source_type="COUNTRY_SKEW_R80",
                    grouping=grouping,
                    topic=TOPIC,
                    sources=2,
                    workers=4,
                    speed="x0",
                    connection=connection,
                    checkpoint=str(tmp_path_factory.mktemp(grouping)),
                    window=1.0,
                    trigger=0.2,
                    max_tuples=800,
                    until_drained=True,
                    emit="changes" if grouping == "KEY" else "final",
                    options=QUICK if grouping == "DYNAMIC_KEY" else {},
                    work=Statistics("offset") if grouping == "DYNAMIC_KEY" else None,
                )
                LastLag(run.location).set(0)  # as if it had been stopped
                monitor = MetricsReporter(run, outputs)
                listeners = [lambda report, tell=monitor.batch: tell(planned(report))]
                assert StreamingJob(run, listeners, [monitor.progress]).run(spark).drained
            until_scraped(server, RUNS["DYNAMIC_KEY"])
        selection = Selection(begin, datetime.now(UTC))
        sources = DataSources(InfluxDB(influxdb.url, influxdb.token, influxdb.org, BUCKET), Prometheus(server.url))
        yield Seen(sources, selection, influxdb.token)


def planned(report: BatchReport) -> BatchReport:
    """As if keys had moved, and as if the batch had been planned. Neither grouping does so."""
    number = report.batch.number
    rebalances = (Rebalance(number, number - 1, 0.01, 5, 2.0, 3, 0, number, 1.2),) * (number > 0)
    return replace(report, rebalances=rebalances, plan=PlanSummary(2, 5, 1, 0.01))


def until_scraped(server: prometheus.PrometheusServer, run: str) -> None:
    """Until its last window has been seen, and its counters more than once, for there to be rates."""
    query = (
        f'count_over_time(unskew_run_tuples_total{{run="{run}"}}[1m]) > 5 and unskew_run_tuples_total == {len(STREAM)} '
        f"and on (run) sum by (run) (unskew_worker_closed_total) == {len(STREAM)}"
    )
    awaited(lambda: server.query(query), query)
