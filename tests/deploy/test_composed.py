"""What runs in the containers of `deploy/compose.yaml`, run without Docker: see `composed.py` for what is replaced."""

import json
import re
import time
import urllib.request
from contextlib import ExitStack

from influxdb_client import InfluxDBClient

from tests.deploy.composed import DEPLOY, InfluxDB, Prometheus, seconds
from tests.waiting import awaited
from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.catalogue import Sample
from unskew.apps.monitoring.outputs import Exporter, InfluxWriter
from unskew.deploy.influx_target import Target
from unskew.deploy.servers.loopback import response

COMMON = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "3"}


def page_port(topology) -> str:
    """The port of a topology's page for Prometheus."""
    (port,) = re.findall(r"--prometheus-port (\d+)", topology["command"])
    return port


def test_prometheus_scrapes_and_evaluates(services, prometheus_program, tmp_path):
    service = services["prometheus"]
    pages = {f"{name}:{page_port(services[name])}": COMMON | {"run": name} for name in ("topology", "topology-key")}
    (outside,) = (host.replace("=", ":").partition(":")[0] for host in service["extra_hosts"])
    pages[f"{outside}:{page_port(services['topology'])}"] = COMMON | {"run": "outside"}
    with ExitStack() as stack:
        reached = {}
        for address, common in pages.items():
            exporter = stack.enter_context(Exporter(0))
            for worker, tuples in enumerate((80, 10, 0)):
                exporter.write([Sample(catalogue.WORKER, 0, {"tuples": tuples}, {"worker": str(worker)})], common)
            reached[address] = f"127.0.0.1:{exporter.port}"
        server = stack.enter_context(Prometheus(tmp_path, service, reached))
        assert server.healthy()

        def asked(path: str):
            return response(f"{server.url}/api/v1/{path}")["data"]

        flags = asked("status/flags")
        for name, value in re.findall(r"--(\S+)=(\S+)", " ".join(service["command"])):
            assert flags[name] == (str(server.path(value)) if value.startswith("/") else value), name

        def up() -> bool:
            found = {each["labels"]["instance"]: each["health"] for each in asked("targets")["activeTargets"]}
            assert found.keys() in (set(), {*reached.values(), server.listens})  # none: it has only begun
            return set(found.values()) == {"up"}

        awaited(up, "all pages are scraped")
        rules = {rule["name"] for group in asked("rules")["groups"] for rule in group["rules"]}
        files = "".join(path.read_text() for path in (DEPLOY / "rules").glob("*.yml"))
        assert rules == set(re.findall(r"- (?:alert|record): (\S+)", files))

        def loads() -> dict[str, float]:
            found = asked("query?query=run:unskew_worker_tuples:max_over_mean")["result"]
            return {series["metric"]["run"]: float(series["value"][1]) for series in found}

        expected = {common["run"]: 80 / 30 for common in pages.values()}
        awaited(lambda: loads() == expected, "the recorded load of all runs")
    assert not server.healthy(), "it has ended"


def settings_of(server: InfluxDB, token: str) -> dict[str, object]:
    """What `influxd` runs with."""
    request = urllib.request.Request(f"{server.url}/api/v2/config", headers={"Authorization": f"Token {token}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["config"]


def test_influxdb_takes_what_the_others_send(services, influxd_program, tmp_path):
    service = services["influxdb"]
    init = {name.removeprefix("DOCKER_INFLUXDB_INIT_"): value for name, value in service["environment"].items()}
    with InfluxDB(tmp_path, service) as server:
        assert server.healthy()
        used = settings_of(server, init["ADMIN_TOKEN"])
        for name, value in service["environment"].items():
            if name.startswith("INFLUXD_"):
                assert str(used[name.removeprefix("INFLUXD_").lower().replace("_", "-")]).lower() == value, name
        own = {"http://influxdb:8086": server.url}
        writer, reader = (
            Target.of(
                own[variables["INFLUXDB_V2_URL"]],
                *(variables[f"INFLUXDB_V2_{name}"] for name in ("TOKEN", "ORG", "BUCKET")),
            )
            for variables in (services["topology"]["environment"], services["grafana"]["environment"])
        )
        assert writer
        assert reader
        with InfluxWriter(writer) as out:
            out.write([Sample(catalogue.WINDOW, int(time.time() * 1000), {"std_dev": 12.5})], COMMON)
        assert (out.written, out.reason) == (1, "")
        with InfluxDBClient(reader.url, reader.token, org=reader.org) as client:
            flux = f'from(bucket: "{reader.bucket}") |> range(start: -1h)'
            (table,) = client.query_api().query(flux)
            assert [record.get_value() for record in table.records] == [12.5]
            bucket = client.buckets_api().find_bucket_by_name(reader.bucket)
            assert bucket.retention_rules[0].every_seconds == seconds(init["RETENTION"])
        with InfluxDBClient(server.url, username=init["USERNAME"], password=init["PASSWORD"], org=init["ORG"]) as user:
            assert user.users_api().me().name == init["USERNAME"]
    assert not server.healthy(), "it has ended"
