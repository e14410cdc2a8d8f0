"""What runs in the containers of `deploy/compose.yaml`, run without Docker: see `composed.py` for what is replaced."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from influxdb_client import InfluxDBClient

from tests.commands import UNSKEW, unskew
from tests.deploy.composed import (
    DEPLOY,
    ROOT,
    InfluxDB,
    Kafka,
    Prometheus,
    Service,
    composed,
    container_port,
    listeners,
    seconds,
    setting_of,
)
from tests.waiting import PATIENCE, awaited
from unskew.apps.commandline import execution
from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.catalogue import Sample
from unskew.apps.monitoring.outputs import Destinations, Exporter, InfluxWriter
from unskew.apps.topology.settings import Settings
from unskew.deploy.influx_target import Target
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.kafka.connection import Connection
from unskew.deploy.kafka.topics import ensure_topic, topics
from unskew.deploy.servers.loopback import LOOPBACK, free_port, response
from unskew.producers import terminal

#: Each variable with another value than its default.
CHANGED = {
    "STACK_SOURCE_TYPE": "ZIPF",
    "STACK_RATE": "7",
    "STACK_GROUPING": "PARTIAL_KEY",
    "STACK_WORKERS": "3",
    "STACK_TOPIC": "another",
    "STACK_KAFKA": "brokers:1",
    "STACK_INFLUXDB": "http://points:2",
    "STACK_INFLUXDB_ORG": "an-org",
    "STACK_INFLUXDB_BUCKET": "a-bucket",
    "STACK_INFLUXDB_TOKEN": "a-token",
    "STACK_INFLUXDB_PASSWORD": "a-password",
    "STACK_GRAFANA_PASSWORD": "another-password",
    "STACK_KAFKA_PORT": "10001",
    "STACK_INFLUXDB_PORT": "10002",
    "STACK_PROMETHEUS_PORT": "10003",
    "STACK_GRAFANA_PORT": "10004",
}
DEFAULTS = {
    "STACK_SOURCE_TYPE": "COUNTRY_SKEW_R80",
    "STACK_RATE": "2000",
    "STACK_GROUPING": "DYNAMIC_KEY",
    "STACK_WORKERS": "10",
    "STACK_TOPIC": "stream",
    "STACK_KAFKA": "kafka:9092",
    "STACK_INFLUXDB": "http://influxdb:8086",
    "STACK_INFLUXDB_ORG": "unskew",
    "STACK_INFLUXDB_BUCKET": "unskew",
    "STACK_INFLUXDB_TOKEN": "unskew-on-this-machine-only",
    "STACK_INFLUXDB_PASSWORD": "unskew-on-this-machine-only",
    "STACK_GRAFANA_PASSWORD": "unskew-on-this-machine-only",
    "STACK_KAFKA_PORT": "9092",
    "STACK_INFLUXDB_PORT": "8086",
    "STACK_PROMETHEUS_PORT": "9090",
    "STACK_GRAFANA_PORT": "3000",
}
COMMON = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "3"}


def page_port(topology) -> str:
    """The port of a topology's page for Prometheus."""
    (port,) = re.findall(r"--prometheus-port (\d+)", topology["command"])
    return port


def help_of(program: Path) -> str:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_prometheus_scrapes_and_evaluates(services, prometheus_program, tmp_path):
    service = services["prometheus"]
    assert f'--web.listen-address="0.0.0.0:{container_port(service)}"' in help_of(prometheus_program.prometheus)
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


@dataclass(frozen=True)
class Launched:
    """What a topology's command line and environment come to."""

    settings: Settings
    destinations: Destinations
    batch_timeout: float


@pytest.fixture
def launched(monkeypatch) -> Callable[[Service], Launched]:
    """Reads a topology's command line as the command does, up to where the run begins."""
    got = []
    monkeypatch.setattr(execution, "execute", lambda *given, **named: got.append((*given, named)))

    def read(service: Service) -> Launched:
        done = unskew(*shlex.split(service["command"]), **service["environment"])
        assert done.returncode == 0, done.stderr
        settings, destinations, _, named = got.pop()
        return Launched(settings, destinations, named["batch_timeout"])

    return read


@pytest.fixture
def produced(monkeypatch) -> Callable[[Service], dict[str, Any]]:
    """Reads a producer's command line as the command does, up to where Kafka is asked."""
    got: dict[str, Any] = {}

    def partitions(connection: Connection, topic: str, number: int, default: int) -> int:
        got.update(partitions=number)
        return number

    def upload(connection: Connection, topic: str, dataset, rejects, *, pace, placement, resume) -> bool:
        got.update(connection=connection, topic=topic, dataset=dataset, pace=pace)
        return True

    monkeypatch.setattr(terminal, "partitions_of", partitions)
    monkeypatch.setattr(terminal, "upload", upload)

    def read(service: Service) -> dict[str, Any]:
        done = unskew(*shlex.split(service["command"]), **service["environment"])
        assert done.returncode == 0, done.stderr
        return got

    return read


@pytest.mark.programs
@pytest.mark.parametrize("changes", [{}, CHANGED], ids=["defaults", "changed"])
def test_producer_and_topologies_meet(changes, launched, produced):
    given = {name.removeprefix("STACK_"): value for name, value in (DEFAULTS | changes).items()}
    services = composed(**changes)
    brokers, topic = Connection(given["KAFKA"]), given["TOPIC"]
    sent = produced(services["producer"])
    assert (sent["connection"], sent["topic"]) == (brokers, topic)
    assert (sent["dataset"].name, sent["dataset"].records) == (given["SOURCE_TYPE"], None)  # without an end
    assert sent["pace"].rate == float(given["RATE"])
    target = Target(given["INFLUXDB"], given["INFLUXDB_TOKEN"], given["INFLUXDB_ORG"], given["INFLUXDB_BUCKET"])
    volumes = []
    for name, grouping in {"topology": given["GROUPING"], "topology-key": "KEY"}.items():
        run = launched(services[name])
        settings = run.settings
        assert (settings.connection, settings.topic, settings.sources) == (brokers, topic, sent["partitions"])
        assert (settings.source_type, settings.grouping) == (given["SOURCE_TYPE"], grouping)
        assert (settings.workers, settings.until_drained, settings.run_time) == (int(given["WORKERS"]), False, None)
        (volume,) = services[name]["volumes"]
        assert Path(settings.checkpoint).is_relative_to(volume["target"])
        volumes.append(volume["source"])
        assert run.destinations == Destinations(target, int(page_port(services[name])), "0.0.0.0")
    assert len(set(volumes)) == 2, "a checkpoint has one run"
    assert services["producer"]["healthcheck"]["test"][-1] == topic


@pytest.mark.programs
@pytest.mark.parametrize("service", ["topology", "topology-key"])
def test_a_topology_that_hangs_ends_and_is_started_again(services, service, launched):
    # Its health check fails first, so that `docker compose ps` says what is about to happen.
    (healthy,) = re.findall(r"> (\d+)\)", services[service]["healthcheck"]["test"][-1])
    assert launched(services[service]).batch_timeout > int(healthy)
    assert services[service]["restart"] == "unless-stopped", "whatever the exit code"


@pytest.mark.programs
@pytest.mark.parametrize("changes", [{}, CHANGED], ids=["defaults", "changed"])
def test_the_servers_get_the_variables(changes):
    given = {name.removeprefix("STACK_"): value for name, value in (DEFAULTS | changes).items()}
    services = composed(**changes)
    influxdb, grafana = (services[name]["environment"] for name in ("influxdb", "grafana"))
    for name in ("TOKEN", "ORG", "BUCKET"):
        wanted = given[f"INFLUXDB_{name}"]
        assert grafana[f"INFLUXDB_V2_{name}"] == wanted
        assert influxdb[f"DOCKER_INFLUXDB_INIT_{'ADMIN_TOKEN' if name == 'TOKEN' else name}"] == wanted
    assert influxdb["DOCKER_INFLUXDB_INIT_PASSWORD"] == given["INFLUXDB_PASSWORD"]
    assert grafana["GF_SECURITY_ADMIN_PASSWORD"] == given["GRAFANA_PASSWORD"]
    for name in ("kafka", "influxdb", "prometheus", "grafana"):
        (port,) = services[name]["ports"]
        assert port["published"] == given[f"{name.upper()}_PORT"]
    assert grafana["INFLUXDB_V2_URL"] == f"http://influxdb:{container_port(services['influxdb'])}"
    assert grafana["PROMETHEUS_URL"] == f"http://prometheus:{container_port(services['prometheus'])}"


def test_every_variable_is_tried_and_documented():
    used = set(re.findall(r"\$\{(STACK_\w+)", (DEPLOY / "compose.yaml").read_text()))
    assert used == CHANGED.keys() == DEFAULTS.keys()
    assert used == set(re.findall(r"`(STACK_\w+)`", (DEPLOY / "README.md").read_text()))
    assert not [name for name in used if CHANGED[name] == DEFAULTS[name]]


@pytest.mark.programs
def test_what_is_not_tried_is_named(services):
    (named,) = re.findall(r"\*\*Never tried of any service\*\*:.*?\n\n", (DEPLOY / "README.md").read_text(), re.DOTALL)
    keys = {key for service in services.values() for key in (*service, *service["healthcheck"])}
    tried = {"command", "environment", "healthcheck", "test"} | {"profiles"}  # these by `docker compose config`
    implied = {"networks"}  # of the reader's making
    assert set(re.findall(r"`([a-z_]+)`", named)) == keys - tried - implied


@pytest.mark.programs
def test_topology_key_differs_by_grouping_and_volume(services):
    one, other = (dict(services[name]) for name in ("topology", "topology-key"))
    assert other.pop("command") == re.sub(r"(COUNTRY_SKEW_R80) \w+", r"\1 KEY", one.pop("command"))
    for differs in ("profiles", "volumes"):
        assert one.pop(differs) != other.pop(differs)
    assert one == other


def settings_of(server: InfluxDB, token: str) -> dict[str, Any]:
    """What `influxd` runs with."""
    request = urllib.request.Request(f"{server.url}/api/v2/config", headers={"Authorization": f"Token {token}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["config"]


def points(server: InfluxDB, environment: dict[str, str]) -> list[float]:
    """The newest values, asked as the data sources of Grafana's environment ask."""
    token, org, bucket = (environment[f"INFLUXDB_V2_{name}"] for name in ("TOKEN", "ORG", "BUCKET"))
    with InfluxDBClient(server.url, token, org=org) as client:
        tables = client.query_api().query(f'from(bucket: "{bucket}") |> range(start: -1h)')
    return [record.get_value() for table in tables for record in table.records]


def test_influxdb_takes_what_the_others_send(services, influxd_program, tmp_path):
    service = services["influxdb"]
    assert re.search(rf'--http-bind-address .*default ":{container_port(service)}"', help_of(influxd_program))
    init = {name.removeprefix("DOCKER_INFLUXDB_INIT_"): value for name, value in service["environment"].items()}
    with InfluxDB(tmp_path, service) as server:
        assert server.healthy()
        used = settings_of(server, init["ADMIN_TOKEN"])
        for name, value in service["environment"].items():
            if name.startswith("INFLUXD_"):
                assert str(used[name.removeprefix("INFLUXD_").lower().replace("_", "-")]).lower() == value, name
        topology, grafana = (services[name]["environment"] for name in ("topology", "grafana"))
        target = Target(server.url, *(topology[f"INFLUXDB_V2_{name}"] for name in ("TOKEN", "ORG", "BUCKET")))
        with InfluxWriter(target) as out:
            out.write([Sample(catalogue.WINDOW, int(time.time() * 1000), {"std_dev": 12.5})], COMMON)
        assert (out.written, out.reason) == (1, "")
        assert points(server, grafana) == [12.5]
        with InfluxDBClient(server.url, init["ADMIN_TOKEN"], org=init["ORG"]) as client:
            bucket = client.buckets_api().find_bucket_by_name(init["BUCKET"])
            assert bucket.retention_rules[0].every_seconds == seconds(init["RETENTION"])
        with InfluxDBClient(server.url, username=init["USERNAME"], password=init["PASSWORD"], org=init["ORG"]) as user:
            assert user.users_api().me().name == init["USERNAME"]
    assert not server.healthy(), "it has ended"


@pytest.mark.programs
def test_health_checks_ask_where_the_services_listen(services):
    for name, service in services.items():
        asked = re.findall(r"(?:localhost|127\.0\.0\.1):(\d+)", " ".join(service["healthcheck"]["test"]))
        if name.startswith("topology"):
            assert asked == [page_port(service)]
        elif name == "kafka":
            assert asked == [listeners(service)["DOCKER"].removeprefix(":")]
        elif name == "producer":
            assert asked == [], "it asks Kafka, which its environment names"
        else:
            assert asked == [str(container_port(service))]


@pytest.mark.programs
def test_kafkas_addresses_agree(services):
    service = services["kafka"]
    inside, advertised = listeners(service), listeners(service, "KAFKA_ADVERTISED_LISTENERS")
    assert inside.keys() == {"DOCKER", "HOST", "CONTROLLER"}
    assert inside["DOCKER"].startswith(":"), "the other containers reach it"
    (port,) = service["ports"]
    assert advertised == {"DOCKER": f"kafka{inside['DOCKER']}", "HOST": f"localhost:{port['published']}"}
    assert inside["HOST"] == f":{port['target']}"
    given = service["environment"]
    assert given["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"{given['KAFKA_NODE_ID']}@{inside['CONTROLLER']}"
    for name in ("producer", "topology", "topology-key"):
        assert services[name]["environment"]["KAFKA_BOOTSTRAP_SERVERS"] == advertised["DOCKER"]


@pytest.mark.programs
def test_kafkas_variables_are_its_settings(services):
    """A broker ignores a setting that it doesn't know. Its classes have the names of those that it knows."""
    classes = {}
    for jar in broker_jars():
        if jar.name.startswith("kafka"):
            with zipfile.ZipFile(jar) as archive:
                names = [name for name in archive.namelist() if re.search(r"Configs?\.class$", name)]
                classes |= {Path(name).stem: archive.read(name) for name in names}

    def constant(text: str) -> bytes:
        return b"\x01" + len(text).to_bytes(2, "big") + text.encode()

    for variable in services["kafka"]["environment"]:
        name = setting_of(variable)
        # The default of a topic's setting has the topic's name for it after `log.`.
        of_topics = name.startswith("log.") and constant(name.removeprefix("log.")) in classes["TopicConfig"]
        assert of_topics or any(constant(name) in each for each in classes.values()), variable


@pytest.mark.kafka
@pytest.mark.programs
@pytest.mark.slow
def test_kafka_serves_both_sides_and_keeps_its_topics(services, topic, tmp_path):
    with Kafka(tmp_path, services["kafka"]) as server:
        assert server.healthy()
        lines = (tmp_path / "final" / "server.properties").read_text().split()
        assert dict(line.split("=", 1) for line in lines) == server.settings
        for side in (server.listens, server.outside):
            admin = AdminClient({"bootstrap.servers": side})
            (broker,) = admin.list_topics(timeout=PATIENCE).brokers.values()
            assert f"{broker.host}:{broker.port}" == side, "whoever comes by a listener is sent back to it"
        (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
        used = {name: entry.value for name, entry in answer.result(PATIENCE).items()}
        assert {name: used[name] for name in server.settings} == server.settings
        ensure_topic(Connection(server.listens), topic, 2)
        server.restart()
        assert topics(Connection(server.outside)) == {topic: 2}
    assert not server.healthy(), "it has ended"


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.nightly(group="clusters")
def test_producer_and_topology_run_as_composed(services, influxd_program, prometheus_program, tmp_path):
    port = str(free_port())

    def here(text: str) -> str:
        return text.replace("/data/", f"{tmp_path}/").replace("9464", port).replace("0.0.0.0", LOOPBACK)

    def await_health(service: str, process: subprocess.Popen[bytes], environment: dict[str, str]) -> None:
        _, _, *check = map(here, services[service]["healthcheck"]["test"])

        def healthy() -> bool:
            assert process.poll() is None
            command = [sys.executable, *check]
            return not subprocess.run(command, env=environment, capture_output=True, check=False).returncode

        awaited(healthy, f"the health of {service}", every=1)

    running = []
    with ExitStack() as stack:
        kafka = stack.enter_context(Kafka(tmp_path / "kafka", services["kafka"]))
        influxdb = stack.enter_context(InfluxDB(tmp_path / "influxdb", services["influxdb"]))
        pages = dict.fromkeys(("topology-key:9464", "host.docker.internal:9464"), f"{LOOPBACK}:{free_port()}")
        pages["topology:9464"] = f"{LOOPBACK}:{port}"
        prometheus = stack.enter_context(Prometheus(tmp_path / "prometheus", services["prometheus"], pages))
        replaced = {"KAFKA_BOOTSTRAP_SERVERS": kafka.listens, "INFLUXDB_V2_URL": influxdb.url}
        try:
            for service in ("producer", "topology"):
                environment = {**os.environ, **services[service]["environment"], **replaced}
                command = [*UNSKEW, *shlex.split(here(services[service]["command"]))]
                running.append(subprocess.Popen(command, env=environment, cwd=ROOT))
                await_health(service, running[-1], environment)

            def publishes() -> bool:
                assert running[-1].poll() is None
                return any(name.endswith("-distribution") for name in topics(Connection(kafka.outside)))

            awaited(publishes, "a result", every=1)
            awaited(lambda: points(influxdb, services["grafana"]["environment"]), "a point", every=1)
            url = f"{prometheus.url}/api/v1/query?query=unskew_query_batch_timestamp_seconds"
            awaited(lambda: response(url)["data"]["result"], "a series", every=1)
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(PATIENCE)
