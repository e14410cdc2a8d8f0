"""The command lines and variables of `deploy/kubernetes`' drivers, on the program that gets them.

`test_lint.py` holds the manifests to their schemas.
"""

import re
import socket
import sys
from typing import Any

import pytest
import yaml

from tests.commands import unskew
from tests.deploy.containers import DRIVER, PATHS, ROOT, RUNNER, entrypoint
from tests.pages import PAGES
from unskew.apps.checkpoint.lease import NAME_VARIABLE, Lease
from unskew.apps.cli import execution
from unskew.apps.settings import Settings
from unskew.deploy.kubernetes.entrypoint import container_command
from unskew.kafka.connection import BOOTSTRAP_VARIABLE

FOLDER = ROOT / "deploy" / "kubernetes"
OPERATORS = ["apache", "kubeflow"]


def application(operator: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / f"{operator}.yaml").read_text())


def driver(operator: str) -> tuple[str, list[str], dict[str, Any]]:
    """The driver's program, the program's arguments, and the container."""
    spec = application(operator)["spec"]
    if operator == "apache":
        program, arguments, template = spec["pyFiles"], spec["driverArgs"], spec["driverSpec"]["podTemplateSpec"]
    else:
        program, arguments, template = spec["mainApplicationFile"], spec["arguments"], spec["driver"]["template"]
    [container] = template["spec"]["containers"]
    return program, arguments, container


def environment(operator: str) -> dict[str, str]:
    """The driver's variables; a secret's value is …"""
    return {each["name"]: each.get("value", "…") for each in driver(operator)[2]["env"]}


def test_both_operators_start_the_same_driver_whose_arguments_reach_unskew():
    assert driver("apache") == driver("kubeflow")
    program, arguments, _ = driver("apache")
    run, _ = container_command([*DRIVER, *RUNNER, program, *arguments], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"})
    assert run == [sys.executable, "-u", "/opt/unskew/bin/main.py", *arguments]


@pytest.fixture
def settings_of(tmp_path, monkeypatch):
    """The settings of a run with a manifest's command line, with its variables and its mounted secret."""
    secret = tmp_path / "kafka"
    secret.mkdir()
    lines = re.findall(r"^ +((?:security|sasl)\.\w+=.+)$", PAGES["docs/deployment.md"].read_text(), re.MULTILINE)
    (secret / "client.properties").write_text("\n".join(lines))

    def read(operator: str) -> tuple[Settings, Any]:
        _, arguments, container = driver(operator)
        [mount] = container["volumeMounts"]
        got: list[Any] = []
        monkeypatch.setattr(execution, "execute_topology", lambda *of, **_: got.extend(of))
        done = unskew(*(each.replace(mount["mountPath"], str(secret)) for each in arguments), **environment(operator))
        assert done.returncode == 0, done.stderr
        return got[0], got[1]

    return read


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_topology_takes_the_command_line(operator, settings_of):
    settings, destinations = settings_of(operator)
    assert settings.mode == "CLUSTER"
    assert settings.master.startswith("k8s://https://")
    assert settings.connection.bootstrap_servers == environment(operator)[BOOTSTRAP_VARIABLE]
    assert settings.connection.properties["sasl.password"] == "…"
    assert settings.location.scheme == "s3a"
    assert destinations.prometheus_port == driver(operator)[2]["ports"][0]["containerPort"]
    assert "spark.driver.memory" not in settings.conf, "the pod's memory is that of the manifest"


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_driver_that_lost_its_hold_waits_when_the_operator_starts_it_again(operator, tmp_path, monkeypatch):
    def hold(pod: str, **variables: str) -> Lease:
        monkeypatch.setattr(socket, "gethostname", lambda: pod)
        monkeypatch.setenv(NAME_VARIABLE, "another application")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return Lease(str(tmp_path))

    ours = {NAME_VARIABLE: environment(operator)[NAME_VARIABLE]}
    assert ours[NAME_VARIABLE] == application(operator)["metadata"]["name"], "two applications have two names"
    hold("unskew-0-driver", **ours).acquire()
    other = hold("other-driver")
    other.acquire()
    lost_to = hold("unskew-1-driver", **ours).successor()  # Apache's operator numbers the pods
    assert lost_to is not None
    assert lost_to["driver"] == other._driver


@pytest.mark.ci
def test_a_driver_without_kafka_ends_with_an_error(tmp_path):
    program, kafka = tmp_path / "main.py", tmp_path / "client.properties"
    program.write_text("from unskew.command import main\nmain()\n")
    kafka.write_text("")
    here = {"--kafka-config": kafka, "--checkpoint": tmp_path / "checkpoint"}
    names = [(each, each.partition("=")[0]) for each in driver("apache")[1]]
    given = [f"{name}={here[name]}" if name in here else each for each, name in names]
    done = entrypoint(
        *(*DRIVER, *RUNNER, f"local://{program}", *given),
        **{**environment("apache"), BOOTSTRAP_VARIABLE: "127.0.0.1:1"},
        SPARK_DRIVER_BIND_ADDRESS="127.0.0.1",
        PYTHONPATH=PATHS,
    )
    assert done.returncode == 1
    assert "unskew: no Kafka broker answers at 127.0.0.1:1" in done.stdout + done.stderr
