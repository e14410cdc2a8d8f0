"""The dashboards' queries are read by the parsers of their servers, without data: by promtool and by InfluxDB."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tests.monitoring.conftest import influxd_program, influxdb, prometheus_program, promtool  # noqa: F401
from unskew.dashboards.checked_in import dashboards
from unskew.dashboards.preview.data_sources import InfluxDB
from unskew.dashboards.preview.selection import Selection
from unskew.errors import EnvironmentFault

STOP = datetime.now(UTC)
SELECTED = Selection(STOP - timedelta(minutes=30), STOP)


def asked() -> dict[str, Mapping[str, str]]:
    """The queries of panels, marks and variables, by their dashboard and title."""
    found = {}
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            found |= {f"{name}: {panel['title']} {target['refId']}": target for target in panel["targets"]}
        found |= {f"{name}: {mark['name']}": mark["target"] for mark in dashboard["annotations"]["list"]}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found[f"{name}: ${variable['name']}"] = variable["query"]
    return found


PROMQL = {title: target["expr"] for title, target in asked().items() if "expr" in target}
FLUX = {
    title: target["query"]
    for title, target in asked().items()
    if "query" in target and not target["query"].startswith("label_values(")  # Grafana's own, which no server reads
}


def rules(queries: dict[str, str], folder) -> str:
    """A file with a rule for each query."""
    made = [
        {"record": f"panel:{number}", "expr": query, "labels": {"panel": title}}
        for number, (title, query) in enumerate(queries.items())
    ]
    (folder / "rules.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": made}]}))
    return str(folder / "rules.json")


def test_promtool_reads_every_query(promtool, tmp_path):
    queries = {title: SELECTED.in_promql(query, 24) for title, query in PROMQL.items()}
    assert queries
    promtool("check", "rules", rules(queries, tmp_path))
    with pytest.raises(AssertionError, match="parse error"):
        promtool("check", "rules", rules({"broken": next(iter(queries.values())) + ")"}, tmp_path))


def test_influxdb_reads_every_query(influxdb, subtests):
    source = InfluxDB(influxdb.url, influxdb.token, influxdb.org, influxdb.bucket)
    for title, query in FLUX.items():
        with subtests.test(title=title):
            source.answer({"query": query}, SELECTED)
    with pytest.raises(EnvironmentFault, match="refuses"):
        source.answer({"query": next(iter(FLUX.values())).replace("range(", "rnge(", 1)}, SELECTED)
