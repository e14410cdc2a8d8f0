"""The manifests of `deploy/kubernetes`, as far as they can be tried without a cluster.

The schemas of both operators' CRDs check them, and refuse fields that they don't have. The drivers' command lines and
variables are tried on the real program.
"""

import copy
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import Draft202012Validator

from tests.commands import unskew
from tests.deploy.containers import DRIVER, PATHS, RUNNER, entrypoint
from unskew.apps.checkpoint.hold import NAME_VARIABLE, Hold
from unskew.apps.checkpoint.location import _FROM_ENVIRONMENT
from unskew.apps.commandline import execution
from unskew.apps.topology.settings import Settings
from unskew.deploy.kafka.connection import BOOTSTRAP_VARIABLE
from unskew.deploy.kubernetes.entrypoint import command

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "kubernetes"
SCHEMAS = Path(__file__).with_name("crds")
OPERATORS = ["apache", "kubeflow"]
#: Kind and version → the file of its schema.
KINDS = {
    ("SparkApplication", "spark.apache.org/v1"): "apache",
    ("SparkApplication", "sparkoperator.k8s.io/v1beta2"): "kubeflow",
    ("PodMonitor", "monitoring.coreos.com/v1"): "pod-monitor",
    ("ServiceAccount", "v1"): "service-account",
    ("Role", "rbac.authorization.k8s.io/v1"): "role",
    ("RoleBinding", "rbac.authorization.k8s.io/v1"): "role-binding",
}


def manifests() -> list[tuple[str, dict[str, Any]]]:
    """Each object of each manifest, with the file's name."""
    return [
        (path.stem, each) for path in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())
    ]


def application(operator: str) -> dict[str, Any]:
    [found] = [each for name, each in manifests() if name == operator]
    return found["spec"]


def arguments(operator: str) -> list[str]:
    spec = application(operator)
    return spec["driverArgs"] if operator == "apache" else spec["arguments"]


def template(operator: str, role: str = "driver") -> dict[str, Any]:
    """The template of the driver's or the executors' pods."""
    spec = application(operator)
    return spec[f"{role}Spec"]["podTemplateSpec"] if operator == "apache" else spec[role]["template"]


def container(operator: str, role: str = "driver") -> dict[str, Any]:
    [found] = template(operator, role)["spec"]["containers"]
    return found


def environment(operator: str) -> dict[str, str]:
    """The driver's variables; those from a secret have its name and key."""
    found = {}
    for each in container(operator)["env"]:
        if "value" in each:
            found[each["name"]] = each["value"]
        else:
            reference = each["valueFrom"]["secretKeyRef"]
            found[each["name"]] = f"{reference['name']}/{reference['key']}"
    return found


def schema(name: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / f"{name}.json").read_text())


def refusals(given: object, by: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(by).iter_errors(given)]


def pod_template() -> dict[str, Any]:
    """Kubernetes' PodTemplateSpec, as Apache's CRD has it. (Kubeflow's takes any object there.)"""
    whole = schema("apache")
    part = whole["properties"]["spec"]["properties"]["driverSpec"]
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    return {**part["properties"]["podTemplateSpec"], "$defs": whole["$defs"]}


@pytest.mark.parametrize(("name", "given"), manifests(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_object_has_the_fields_of_its_kind_alone(name, given):
    by = schema(KINDS[given["kind"], given["apiVersion"]])
    assert not refusals(given, by)
    assert given["kind"] != "Secret"


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_kubeflows_pod_templates_are_kubernetes_own(role):
    assert not refusals(template("kubeflow", role), pod_template())


@pytest.mark.parametrize("name", sorted(KINDS.values()))
def test_the_schemas_are_schemas(name):
    Draft202012Validator.check_schema(schema(name))
    comment = schema(name)["$comment"]
    assert re.search(r" of \S+ v?\d+\.\d+\.\d+, ", comment)
    assert "Apache License, Version 2.0" in comment


@pytest.mark.parametrize(
    ("operator", "path", "field", "value"),
    [
        ("apache", (), "restartPolicy", {"type": "Always"}),
        ("apache", ("applicationTolerations", "restartConfig"), "restartPolicy", "Sometimes"),
        ("apache", ("applicationTolerations", "restartConfig"), "maxRestarts", 3),
        ("apache", ("driverSpec", "podTemplateSpec", "spec"), "terminationGracePeriod", 60),
        ("apache", ("driverSpec", "podTemplateSpec", "spec", "containers", 0, "env", 2, "valueFrom"), "secretRef", {}),
        ("kubeflow", (), "driverArgs", []),
        ("kubeflow", ("driver",), "serviceAccountName", "unskew"),
        ("kubeflow", ("restartPolicy",), "type", "Sometimes"),
        ("kubeflow", ("restartPolicy",), "onFailureRetryInterval", "30s"),
        ("kubeflow", ("executor",), "instances", 0),
    ],
)
def test_a_mistake_in_a_manifest_is_refused(operator, path, field, value):
    [given] = [copy.deepcopy(each) for name, each in manifests() if name == operator]
    part = given["spec"]
    for step in path:
        part = part[step]
    part[field] = value
    [refused] = refusals(given, schema(operator))
    assert str(field) in refused


def test_a_mistake_in_a_pod_template_is_refused():
    given = template("kubeflow")
    given["spec"]["containers"][0]["env"][0]["valeu"] = "unskew"
    [refused] = refusals(given, pod_template())
    assert "valeu" in refused


def test_both_operators_get_the_same_run():
    assert arguments("apache") == arguments("kubeflow")
    for role in ("driver", "executor"):
        assert template("apache", role) == template("kubeflow", role)
    conf, spec = application("apache")["sparkConf"], application("kubeflow")
    for role, amounts in (("driver", ("cores", "memory", "memoryOverhead")), ("executor", ("instances", "cores"))):
        assert {name: conf[f"spark.{role}.{name}"] for name in amounts} == {
            name: str(spec[role][name]) for name in amounts
        }
    assert conf["spark.kubernetes.container.image"] == spec["image"]
    assert conf["spark.kubernetes.authenticate.driver.serviceAccountName"] == spec["driver"]["serviceAccount"]
    assert spec["sparkConf"].items() <= conf.items()


@pytest.fixture
def settings_of(tmp_path, monkeypatch):
    """The settings of a run with a manifest's command line, with its variables and its mounted secret."""
    secret = tmp_path / "kafka"
    secret.mkdir()
    lines = re.findall(r"^ +((?:security|sasl)\.\w+=.+)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 4
    (secret / "client.properties").write_text("\n".join(lines))

    def read(operator: str) -> tuple[Settings, Any, float | None]:
        [mount] = container(operator)["volumeMounts"]
        given = [each.replace(mount["mountPath"], str(secret)) for each in arguments(operator)]
        got: list[Any] = []
        monkeypatch.setattr(execution, "execute", lambda *of, batch_timeout, **_: got.extend([*of[:2], batch_timeout]))
        done = unskew(*given, **environment(operator))
        assert done.returncode == 0, done.stderr
        return got[0], got[1], got[2]

    return read


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_topology_takes_the_command_line(operator, settings_of):
    settings, destinations, batch_timeout = settings_of(operator)
    assert settings.mode == "CLUSTER"
    assert settings.master.startswith("k8s://https://")
    assert settings.connection.bootstrap_servers == environment(operator)[BOOTSTRAP_VARIABLE]
    assert settings.connection.properties["sasl.password"] == "…"
    assert settings.location.scheme == "s3a"
    assert (destinations.prometheus_port, destinations.prometheus_host) == (9464, "0.0.0.0")
    assert batch_timeout == 600
    assert "spark.driver.memory" not in settings.conf, "the pod's memory is that of the manifest"


@pytest.mark.parametrize("operator", OPERATORS)
def test_its_variables_are_read_by_somebody(operator):
    known = {NAME_VARIABLE, BOOTSTRAP_VARIABLE, *(name for names in _FROM_ENVIRONMENT.values() for name in names)}
    assert environment(operator).keys() <= known


@pytest.mark.parametrize("operator", OPERATORS)
def test_secrets_are_references(operator):
    for each in container(operator)["env"]:
        assert ("valueFrom" in each) == bool(re.search("SECRET|TOKEN|PASSWORD|KEY", each["name"])), each["name"]
    [volume], [mount] = template(operator)["spec"]["volumes"], container(operator)["volumeMounts"]
    assert volume["name"] == mount["name"]
    [file] = [each for each in arguments(operator) if each.startswith("--kafka-config=")]
    assert Path(file.partition("=")[2]).parent == Path(mount["mountPath"])
    for name, reference in environment(operator).items():
        assert name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") or reference.startswith("unskew-s3/")
    readme = (FOLDER / "README.md").read_text()
    for name in (volume["secret"]["secretName"], "unskew-s3"):
        assert f"kubectl create secret generic {name} " in readme


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_image_has_the_program_and_the_user(operator):
    spec, dockerfile = application(operator), (DEPLOY / "Dockerfile").read_text()
    program = spec["pyFiles"] if operator == "apache" else spec["mainApplicationFile"]
    assert program == "local:///opt/unskew/bin/main.py"
    assert "WORKDIR /opt/unskew\n" in dockerfile
    assert 'ln -s "$(command -v unskew)" bin/main.py' in dockerfile
    assert '"-m", "unskew.deploy.kubernetes.entrypoint"]' in dockerfile
    for role in ("driver", "executor"):
        user = template(operator, role)["spec"]["securityContext"]["runAsUser"]
        assert f"--uid {user} " in dockerfile
        assert f"USER {user}\n" in dockerfile
        assert container(operator, role)["name"] == f"spark-kubernetes-{role}"
    version = spec["runtimeVersions"]["sparkVersion"] if operator == "apache" else spec["sparkVersion"]
    assert f"pyspark=={version}" in (DEPLOY / "requirements.lock").read_text()


@pytest.mark.parametrize("operator", OPERATORS)
def test_prometheus_finds_the_driver(operator):
    [monitor] = [each["spec"] for name, each in manifests() if name == "pod-monitor"]
    meta, [port], [endpoint] = (
        template(operator)["metadata"],
        container(operator)["ports"],
        monitor["podMetricsEndpoints"],
    )
    wanted = dict(monitor["selector"]["matchLabels"])
    assert wanted.pop("spark-role") == "driver", "Spark's own label"
    assert wanted.items() <= meta["labels"].items()
    assert meta["labels"][monitor["jobLabel"]] == "unskew", "the alerts' job"
    assert endpoint["port"] == port["name"]
    assert f"--prometheus-port={port['containerPort']}" in arguments(operator)
    assert meta["annotations"]["prometheus.io/port"] == str(port["containerPort"])


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_driver_that_lost_its_hold_waits_when_the_operator_starts_it_again(operator, tmp_path, monkeypatch):
    def hold(pod: str, **variables: str) -> Hold:
        monkeypatch.setattr(socket, "gethostname", lambda: pod)
        monkeypatch.setenv(NAME_VARIABLE, "another application")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return Hold(str(tmp_path))

    ours = {NAME_VARIABLE: environment(operator)[NAME_VARIABLE]}
    [name] = [each["metadata"]["name"] for file, each in manifests() if file == operator]
    assert ours[NAME_VARIABLE] == name, "two applications have two names"
    hold("unskew-0-driver", **ours).take()
    other = hold("other-driver")
    other.take()
    lost_to = hold("unskew-1-driver", **ours).lost_to()  # Apache's operator numbers the pods
    assert lost_to is not None
    assert lost_to["driver"] == other._driver


def test_the_operators_start_it_again_whatever_its_exit_code():
    kubeflow = application("kubeflow")["restartPolicy"]
    assert kubeflow["type"] == "Always"
    # Without these the operator's reconciliation ends with an error instead of another attempt.
    assert kubeflow.keys() >= {"onFailureRetryInterval", "onSubmissionFailureRetryInterval"}
    apache = application("apache")["applicationTolerations"]["restartConfig"]
    assert apache["restartPolicy"] == "Always"
    assert apache["restartCounterResetMillis"] > 0, "else the attempts of a whole life are counted"


def test_a_driver_without_kafka_ends_with_an_error(tmp_path):
    operator = "apache"  # both have the same command line
    program, kafka = tmp_path / "main.py", tmp_path / "client.properties"
    program.write_text("from unskew.command import main\nmain()\n")
    kafka.write_text("")
    here = {"--kafka-config": kafka, "--checkpoint": tmp_path / "checkpoint"}
    names = [(each, each.partition("=")[0]) for each in arguments(operator)]
    given = [f"{name}={here[name]}" if name in here else each for each, name in names]
    done = entrypoint(
        *(*DRIVER, *RUNNER, f"local://{program}", *given),
        **{**environment(operator), BOOTSTRAP_VARIABLE: "127.0.0.1:1"},
        SPARK_DRIVER_BIND_ADDRESS="127.0.0.1",
        PYTHONPATH=PATHS,
    )
    assert done.returncode == 1
    assert "unskew: no Kafka broker answers at 127.0.0.1:1" in done.stdout + done.stderr


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_drivers_arguments_reach_unskew(operator):
    spec = application(operator)
    program = spec["pyFiles"] if operator == "apache" else spec["mainApplicationFile"]
    run, _ = command([*DRIVER, *RUNNER, program, *arguments(operator)], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"})
    assert run == [sys.executable, "-u", "/opt/unskew/bin/main.py", *arguments(operator)]
