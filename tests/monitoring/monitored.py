"""A run of the topology with its monitor, and what InfluxDB has of it."""

from collections import defaultdict

from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.metrics_reporter import MetricsReporter


def monitored(spark, run, outputs, *listeners):
    monitor = MetricsReporter(run, outputs)
    return StreamingJob(run, [monitor.batch, *listeners], [monitor.progress]).run(spark)


def points(server, bucket):
    """(measurement, time in ms, label) → field → value."""
    from influxdb_client.client.influxdb_client import InfluxDBClient

    found = defaultdict(dict)
    with InfluxDBClient(server.url, server.token, org=server.org) as client:
        for table in client.query_api().query(f'from(bucket: "{bucket}") |> range(start: -1h)'):
            for r in table.records:
                subject = next(m.subject for m in catalogue.METRICS if m.subject.name == r.get_measurement())
                label = tuple(r.values[name] for name in subject.labels)
                series = (subject.name, round(r.get_time().timestamp() * 1000), *label)
                found[series][r.get_field()] = r.get_value()
    return found
