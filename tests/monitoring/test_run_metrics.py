"""A run of the topology, as InfluxDB, Prometheus and Kafka's lag tools see it."""

import urllib.request

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.apps.conftest import countries, publish, records, settings, spark  # noqa: F401
from tests.monitoring.monitored import monitored, points
from tests.waiting import awaited
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.kafka.topics import end_offsets

pytestmark = [pytest.mark.nightly(group="servers"), pytest.mark.kafka, pytest.mark.spark]

# InfluxDB's and Prometheus' field → the distribution topic's
WINDOW = {
    "std_dev": "STD_DEV",
    "dist_cost": "DIST_COST",
    "throughput_ratio": "THROUGHPUT_RATIO",
    "total_tuples": "TOTAL_COUNT",
    "duration": "DURATION",
    "imbalance": "imbalance",
    "imbalance_fraction": "imbalanceFraction",
    "tuples": "tuples",
    "counts": "count",
    "distinct_keys": "distinctKeys",
}
WORKER = {"tuples": "tuples", "counts": "count", "distinct_keys": "distinctKeys", "share": "share"}
HOT_KEY = {"tuples": "tuples", "counts": "count", "holders": "workers"}
STREAM = countries((["Turkey"] * 16 + ["Peru", "Chad", "Fiji", "Oman"]) * 200)

# A run without states, and with a grouping that has neither a controller nor a planner, has none of these. Tables are
# written by queries of the library.
NOT_HERE = (
    catalogue.METRICS_OUT,
    catalogue.STATES,
    catalogue.WORKER_STATES,
    catalogue.REBALANCE,
    catalogue.PLANNER,
    catalogue.WRITE,
    catalogue.OPEN_WINDOW,
)


def distribution(run):
    """The distribution topic, laid out as the points."""
    found = {}
    for _, record in records(run.connection, list_result_topics(run)["distribution"]):
        tags, fields, time_ms = record["tags"], record["fields"], record["timestamp"]
        if record["key"] == "EVENT_INFO":
            found["window", time_ms] = {name: fields[theirs] for name, theirs in WINDOW.items()}
        elif record["key"] == "WORKER":
            found["worker", time_ms, tags["worker"]] = {name: fields[theirs] for name, theirs in WORKER.items()}
        elif record["key"] == "HOT_KEY":
            values = {name: fields[theirs] for name, theirs in HOT_KEY.items()}
            found["hot_key", time_ms, str(fields["rank"])] = values | {"key": tags["key"]}
    return found


def test_every_window_is_the_same_everywhere(spark, settings, connection, topic, influxdb, prometheus, promtool):
    publish(connection, topic, 2, STREAM)
    quick = {"warm_up": 0.0, "check_interval": 0.1, "promotion_period": 0.1}
    run = settings("DYNAMIC_KEY", max_tuples=800, options=quick)
    with Outputs(Destinations.of(influxdb.url, influxdb.token, influxdb.org, topic, 0)) as outputs:
        assert monitored(spark, run, outputs).drained
        server = prometheus(targets={"unskew": [f"127.0.0.1:{outputs.exporter.port}"]}, every=0.2)
        truth = distribution(run)
        last = max(time_ms for name, time_ms, *_ in truth if name == "window")
        scraped = first(server, f'unskew_window_tuples{{run="{run.name}"}}')
        assert scraped["metric"]["grouping"] == "DYNAMIC_KEY"
        # Prometheus has the last window.
        for (subject, time_ms, *label), fields in truth.items():
            if time_ms == last:
                numbers = [(catalogue.get_metric(subject, name), value) for name, value in fields.items()]
                for metric, value in numbers:
                    if metric.is_number:
                        labels = dict(zip(metric.subject.labels, label, strict=True))
                        chosen = ",".join(f'{name}="{of}"' for name, of in labels.items())
                        series = f"{metric.prometheus_name}{{{chosen}}}"
                        expected = pytest.approx(metric.in_prometheus(value))
                        assert float(first(server, series)["value"][1]) == expected, series
        hot = sum(name == "hot_key" and time_ms == last for name, time_ms, *_ in truth)
        assert len(server.query("unskew_hot_key_tuples")) == hot
        with urllib.request.urlopen(outputs.exporter.url) as answer:
            promtool("check", "metrics", page=answer.read())
        total = first(server, "unskew_run_tuples_total")
        assert float(total["value"][1]) == len(STREAM)
    assert outputs.losses == ""
    # InfluxDB has them all.
    found = points(influxdb, topic)
    assert {series for series in found if series[0] in {"window", "worker", "hot_key"}} == truth.keys()
    for series, fields in truth.items():
        for name, value in fields.items():
            assert found[series][name] == (value if isinstance(value, str) else pytest.approx(value)), (series, name)
    assert sum(fields["tuples"] for series, fields in found.items() if series[0] == "batch") == len(STREAM)
    kinds = {series[2] for series in found if series[0] == "event"}
    assert kinds == {"start", "scale_up"}
    # Such a run gives values of all metrics in the catalogue, and of no others. It wasn't restarted.
    metrics = {(series[0], name) for series, fields in found.items() for name in fields}
    of_all = {(m.subject.name, m.name) for m in catalogue.METRICS if m.subject not in NOT_HERE}
    assert metrics == of_all - {("query", "recovery")}


def test_a_restart_goes_on_and_is_marked(spark, settings, connection, topic, influxdb):
    publish(connection, topic, 2, STREAM[:1000])
    run = settings("KEY")
    for start in (0, 1000):
        publish(connection, topic, 2, STREAM[start : start + 1000]) if start else None
        with Outputs(Destinations.of(influxdb.url, influxdb.token, influxdb.org, topic, None)) as outputs:
            assert monitored(spark, run, outputs).drained
    found = points(influxdb, topic)
    assert sorted(series[2] for series in found if series[0] == "event") == ["restart", "start"]
    newest = max(series for series in found if series[0] == "run")
    assert found[newest]["tuples"] == 2000
    # The first run left no message, and so did the second one in the end.
    resumed = next(series[1] for series in found if series[0] == "event" and series[2] == "restart")
    recovered = {series[1]: fields["recovery"] for series, fields in found.items() if "recovery" in fields}
    assert len(recovered) == 1
    assert min(recovered) >= resumed
    assert all(seconds > 0 for seconds in recovered.values())


@pytest.mark.slow
def test_lag_tools_see_the_run(spark, settings, connection, topic):
    publish(connection, topic, 2, STREAM)
    run = settings("KEY", consumer_group=f"{topic}-watched")
    with Outputs(Destinations()) as outputs:
        assert monitored(spark, run, outputs).drained
    admin = AdminClient(connection.client())
    groups = [ConsumerGroupTopicPartitions(f"{topic}-watched")]
    (group,) = (future.result() for future in admin.list_consumer_group_offsets(groups).values())
    committed = {part.partition: part.offset for part in group.topic_partitions}
    assert committed == end_offsets(connection, topic)


def first(server, expression):
    return awaited(lambda: server.query(expression), expression)[0]
