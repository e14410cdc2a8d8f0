"""The recording rules and alerts, judged by Prometheus' own programs."""

import re
import time
import urllib.request
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT
from tests.waiting import awaited
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import Exporter
from unskew.dashboards.grafana.panels import read_alerts
from unskew.deploy.servers.stack import RULES

DEPLOY = RULES[0].parents[1]
CASES = sorted(Path(__file__).parent.glob("*_test.yml"))
RUNBOOKS = "docs/runbooks.md"
COMMON = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "3"}


def test_promtool_accepts_the_configuration_and_the_rules(promtool):
    promtool("check", "config", DEPLOY / "prometheus.yml")
    promtool("check", "rules", *RULES)


def test_promtool_accepts_every_metric(promtool):
    with Exporter(0, "127.0.0.1") as exporter:
        for subject in dict.fromkeys(metric.subject.name for metric in catalogue.METRICS):
            metrics = [metric for metric in catalogue.METRICS if metric.subject.name == subject]
            values = {metric.name: 1 for metric in metrics if metric.kind != "text"}
            exporter.write(
                [Sample(metrics[0].subject, 1, values, dict.fromkeys(metrics[0].subject.labels, "0"))], COMMON
            )
        with urllib.request.urlopen(exporter.url) as answer:
            page = answer.read()
    for metric in catalogue.METRICS:
        assert (f"{metric.prometheus_name}{{".encode() in page) == metric.is_number, metric
    promtool("check", "metrics", page=page)


def test_alerts_fire_when_they_should_and_not_before(promtool):
    promtool("test", "rules", *CASES)


def test_every_alert_is_tested_where_it_fires_and_where_it_does_not():
    tests = "".join(path.read_text() for path in CASES)
    # A case that expects an alert is also told what other runs' series mustn't cause; so one case may do for both.
    assert set(read_alerts()) == set(re.findall(r"alertname: (\w+)", tests))
    fires = re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:", tests)
    assert set(read_alerts()) == set(fires)


def _sections() -> dict[str, str]:
    """Runbook's heading → its text."""
    parts = re.split(r"(?m)^## (.+)$", PAGES[RUNBOOKS].read_text(encoding="utf-8"))[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_alert_has_its_section_and_every_section_its_alert():
    pages = re.search(r'Documentation = "(.+/)docs/', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pages
    links = {alert: f"{pages[1]}{RUNBOOKS}#{alert.lower()}" for alert in _sections()}
    assert {alert: rule["annotations"]["runbook_url"] for alert, rule in read_alerts().items()} == links


@pytest.mark.parametrize("alert", _sections())
def test_a_section_says_what_it_means_how_to_confirm_what_to_do_and_whom_to_wake(alert):
    text = _sections()[alert]
    assert re.findall(r"(?m)^\*\*(\w+)\*\*", text) == ["Means", "Confirm", "Do", "Wake"]
    (shown,) = re.findall(r"(?s)```console\n(.*?)```", text)
    commands = [line.strip() for line in shown.splitlines() if line.strip()]
    assert 1 <= len(commands) <= 3
    recorded = "".join(path.read_text() for path in RULES)
    for name in re.findall(r"\brun:[\w:]+", shown):
        assert f"record: {name}\n" in recorded
    known = {metric.prometheus_name for metric in catalogue.METRICS}
    assert set(re.findall(r"\bunskew_\w+", re.sub(r"\brun:[\w:]+", "", shown))) <= known


def test_rules_name_metrics_that_exist():
    known = {metric.prometheus_name for metric in catalogue.METRICS if metric.is_number}
    named = set()
    for path in RULES:
        without_recorded = re.sub(r"\brun:\w+(:\w+)?", "", path.read_text())
        named |= set(re.findall(r"\bunskew_\w+", without_recorded))
    assert named
    assert named <= known


def test_the_real_server_evaluates_them_on_what_the_topology_exports(prometheus):
    now = int(time.time() * 1000)
    with Exporter(0, "127.0.0.1") as exporter:
        for worker, tuples in enumerate((80, 10, 0)):
            exporter.write([Sample(catalogue.TASK, now, {"tuples": tuples}, {"worker": str(worker)})], COMMON)
        exporter.write([Sample(catalogue.QUERY, now, {"lag": 900, "processed_rate": 10, "batch": 1.0})], COMMON)
        server = prometheus(targets={"unskew": [f"127.0.0.1:{exporter.port}"]}, rules=RULES, every=0.2)
        expected = {"LoadImbalanced", "BatchesStopped", "ResultsStale", "ResultsOftenStale"}
        awaited(lambda: {alert["metric"]["alertname"] for alert in server.query("ALERTS")} == expected, expected)
        (load,) = server.query("run:unskew_task_tuples:max_over_mean5m")
        assert float(load["value"][1]) == 80 / 30
        assert {name: load["metric"][name] for name in COMMON} == COMMON
        (wait,) = server.query("run:unskew_query_lag:seconds")
        assert float(wait["value"][1]) == 90
