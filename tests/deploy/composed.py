"""The services of `deploy/compose.yaml` as processes of this machine, without Docker.

A service keeps its command line, its environment, its files and its health check. Only what a container has for itself
is replaced: an address becomes a free port of the loopback interface, and the file system a directory of the test with
the same mounts.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.programs import REQUIRED
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers import influxdb, prometheus
from unskew.deploy.servers.loopback import LOOPBACK, free_port, response
from unskew.deploy.servers.server import HttpServer, Server

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
READER = "github.com/compose-spec/compose-go/v2/cmd@v2.9.1"

Service = dict[str, Any]
_ADDRESS = re.compile(r"[\w.-]+:\d+")
#: A health check is asked past any proxy.
_DIRECT = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def composed(**variables: str) -> dict[str, Service]:
    """The services as the format's reference implementation reads them, with these values of variables `STACK_…`.

    Its command line takes no variables from the environment: the values take the defaults' places.
    """
    if shutil.which("go") is None:
        (pytest.fail if REQUIRED else pytest.skip)("no Go to run the reader of compose files")
    text = re.sub(
        r"\$\{(STACK_\w+)(:?-)([^}]*)\}",
        lambda found: f"${{{found[1]}{found[2]}{variables.get(found[1], found[3])}}}",
        (DEPLOY / "compose.yaml").read_text(),
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STACK_")}
    command = ["go", "run", READER, "-format", "json", "-"]
    done = subprocess.run(command, cwd=DEPLOY, env=environment, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


def container_port(service: Service) -> int:
    """The port of the container that is published."""
    (port,) = service["ports"]
    return port["target"]


class Composed(Server):
    """A service as a process of this machine. As a context manager it runs inside the block.

    Parameters
    ----------
    directory
        Its directory: data, log, and the container's paths.
    service
        The service.
    reached
        The addresses that other services have among the containers → where these listen here.
    """

    def __init__(self, directory: Path, service: Service, reached: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self.service = service
        self._reached = dict(reached or {})

    def here(self, text: str) -> str:
        """The text with the addresses that its services have here."""
        return _ADDRESS.sub(lambda found: {**self._reached, **self._own}.get(found[0], found[0]), text)

    def path(self, path: str) -> Path:
        """Where a path of the container is here. It must be in a mount or a volume: the rest is the image's."""
        targets = [Path(volume["target"]) for volume in self.service["volumes"]]
        assert any(Path(path).is_relative_to(target) for target in targets), f"{path} is in none of {targets}"
        return self._root / path.lstrip("/")

    def healthy(self) -> bool:
        """Whether its health check passes. Without the check's program, the server is asked what that asks."""
        kind, *check = self.service["healthcheck"]["test"]
        assert kind == "CMD"
        command = [self.here(part) for part in check]
        if shutil.which(command[0]):
            return not subprocess.run(command, env=_DIRECT, capture_output=True, check=False).returncode
        return self._answers_at(command[-1])

    @property
    def _own(self) -> dict[str, str]:
        """The address at which the container reaches itself → where it listens here."""
        return {f"localhost:{container_port(self.service)}": self.listens}

    @property
    def _root(self) -> Path:
        return self.directory / "container"

    def _answers_at(self, address: str) -> bool:
        """Whether the server answers at the address of its health check."""
        raise NotImplementedError

    def _lay_out(self) -> None:
        """Make the container's volumes and mounts."""
        for volume in self.service["volumes"]:
            target = self._root / volume["target"].lstrip("/")
            if volume["type"] == "volume":
                target.mkdir(parents=True, exist_ok=True)
                continue
            source = Path(volume["source"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            if source.is_file():
                target.write_text(self.here(source.read_text()))
            else:
                target.symlink_to(source)


class ComposedHttp(Composed, HttpServer):
    """A service that answers HTTP."""

    def _answers_at(self, address: str) -> bool:
        try:
            response(address.removesuffix(self.health) + self.health)
        except OSError:
            return False
        return True


class Prometheus(ComposedHttp):
    """The service `prometheus`, with its own command line."""

    name = "Prometheus"
    health = "/-/ready"

    def _command(self) -> list[str | Path]:
        programs = prometheus.prometheus_programs()
        self._lay_out()
        given = [re.sub(r"(?<==)/.*", lambda found: str(self.path(found[0])), each) for each in self.service["command"]]
        pages = [f"--web.local-assets={programs.pages}"] if programs.pages else []
        return [programs.prometheus, *given, f"--web.listen-address={self.listens}", *pages]


class InfluxDB(ComposedHttp):
    """The service `influxdb`, with its own environment, set up as the image's entry point does it.

    The entry point (influxdata-docker, `influxdb/2.7/entrypoint.sh`) starts `influxd` and calls `influx setup` with the
    variables `DOCKER_INFLUXDB_INIT_…`. That command posts them to `/api/v2/setup`, as we do.
    """

    name = "InfluxDB"
    health = "/health"

    def _command(self) -> list[str | Path]:
        self._lay_out()
        # Where the image has its data, by its entry point; its volume is at that place.
        image = {
            "INFLUXD_BOLT_PATH": self.path("/var/lib/influxdb2/influxd.bolt"),
            "INFLUXD_ENGINE_PATH": self.path("/var/lib/influxdb2/engine"),
            "INFLUXD_HTTP_BIND_ADDRESS": self.listens,
        }
        environment = {**image, **self.service["environment"]}
        return ["env", *(f"{name}={value}" for name, value in environment.items()), influxdb.influxd()]

    def _ready(self) -> None:
        if not response(f"{self.url}/api/v2/setup")["allowed"]:
            return
        given = self.service["environment"]
        assert given["DOCKER_INFLUXDB_INIT_MODE"] == "setup"
        init = {
            "username": given["DOCKER_INFLUXDB_INIT_USERNAME"],
            "password": given["DOCKER_INFLUXDB_INIT_PASSWORD"],
            "org": given["DOCKER_INFLUXDB_INIT_ORG"],
            "bucket": given["DOCKER_INFLUXDB_INIT_BUCKET"],
            "token": given["DOCKER_INFLUXDB_INIT_ADMIN_TOKEN"],
            "retentionPeriodSeconds": seconds(given["DOCKER_INFLUXDB_INIT_RETENTION"]),
        }
        response(f"{self.url}/api/v2/setup", init)


class Kafka(Composed):
    """The service `kafka`, with its own environment, started as the image's entry point does it.

    The entry point (apache/kafka, `docker/jvm/launch`) calls Kafka's class `KafkaDockerWrapper`. That class makes
    `server.properties` of the variables `KAFKA_…` and formats the volume. Then the broker is started with that file.

    The controller isn't reached by others. The listener `DOCKER` is at `listens`, the listener `HOST` at `outside`.
    """

    name = "Kafka"
    cluster = "5L6g3nShT-eMCtK--X86sw"  # the image's default

    def __init__(self, directory: Path, service: Service) -> None:
        super().__init__(directory, service)
        self._controller, self._host = free_port(), free_port()

    @property
    def outside(self) -> str:
        """`host:port` for clients on this machine."""
        return f"{LOOPBACK}:{self._host}"

    @property
    def settings(self) -> dict[str, str]:
        """The broker's settings, by the rule of `KafkaDockerWrapper`, with what is replaced here."""
        return {setting_of(name): value for name, value in self._environment().items()}

    @property
    def _own(self) -> dict[str, str]:
        return {f"localhost{listeners(self.service)['DOCKER']}": self.listens}

    def _environment(self) -> dict[str, str]:
        given = {name: str(value) for name, value in self.service["environment"].items()}
        here = {"DOCKER": self.listens, "CONTROLLER": f"{LOOPBACK}:{self._controller}", "HOST": self.outside}
        for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"):
            given[name] = re.sub(r"(\w+)://[^,]*", lambda found: f"{found[1]}://{here[found[1]]}", given[name])
        voters = "KAFKA_CONTROLLER_QUORUM_VOTERS"
        given[voters] = given[voters].replace(listeners(self.service)["CONTROLLER"], here["CONTROLLER"])
        given["KAFKA_LOG_DIRS"] = str(self.path(given["KAFKA_LOG_DIRS"]))
        return given

    def _command(self) -> list[str | Path]:
        self._lay_out()
        jvm = [
            find_java().launcher,
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={(DEPLOY / 'servers' / 'broker-log4j2.xml').as_uri()}",
            f"-Dunskew.log={self.log}",
            *("-cp", ":".join(map(str, broker_jars()))),
        ]
        folders = [self.directory / name for name in ("default", "mounted", "final")]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        options = ("--default-configs-dir", "--mounted-configs-dir", "--final-configs-dir")
        given = [part for pair in zip(options, folders, strict=True) for part in pair]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        done = subprocess.run(
            [*jvm, "kafka.docker.KafkaDockerWrapper", "setup", *given],
            env={**ours, "CLUSTER_ID": self.cluster, **self._environment()},
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        assert not done.returncode or "already formatted" in output.lower(), output  # as the entry point has it
        return [*jvm, "kafka.Kafka", folders[-1] / "server.properties"]

    def _answers(self) -> bool:
        return self._answers_at(self.listens)

    def _answers_at(self, address: str) -> bool:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 200})
        try:
            return admin.list_topics(timeout=1).cluster_id == self.cluster
        except KafkaException:
            return False

    def _announcement(self) -> dict[str, str]:
        return {"bootstrap_servers": self.listens}


def listeners(service: Service, variable: str = "KAFKA_LISTENERS") -> dict[str, str]:
    """The names of Kafka's listeners → their addresses in the container, such as `:9092`."""
    return dict(re.findall(r"(\w+)://([^,]*)", service["environment"][variable]))


def setting_of(variable: str) -> str:
    """The setting that a variable of Kafka's image sets: the rule of `KafkaDockerWrapper`."""
    name = variable.removeprefix("KAFKA_").lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def seconds(days: str) -> int:
    """The seconds of a duration that is given in days, such as 30d."""
    assert days.endswith("d"), days
    return 86400 * int(days.removesuffix("d"))
