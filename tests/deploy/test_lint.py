"""The files that Docker, Kubernetes and GitHub read, checked by what was made for that. `make lint` runs these tests.

promtool checks Prometheus' files in `tests/monitoring/test_rules.py`, TypeScript the dashboards' in
`tests/dashboards/test_schema.py`.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import Draft202012Validator

from tests.pages import ROOT
from tests.programs import REQUIRED
from tests.programs.packages import actionlint, compose_reader
from unskew.errors import EnvironmentFault

_GITHUB = ROOT / ".github"
_MANIFESTS = {
    f"{path.stem}: {given['kind']}": given
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for given in yaml.safe_load_all(path.read_text())
}
#: Kind and version → the file of its schema.
_KINDS = {
    ("SparkApplication", "spark.apache.org/v1"): "apache",
    ("SparkApplication", "sparkoperator.k8s.io/v1beta2"): "kubeflow",
    ("PodMonitor", "monitoring.coreos.com/v1"): "pod-monitor",
    ("ScaledObject", "keda.sh/v1alpha1"): "scaled-object",
    ("ServiceAccount", "v1"): "service-account",
    ("Role", "rbac.authorization.k8s.io/v1"): "role",
    ("RoleBinding", "rbac.authorization.k8s.io/v1"): "role-binding",
}


def accepts(program: Callable[..., Path], *arguments: object) -> None:
    """The linter finds nothing. Without it the test is skipped, or fails if `$UNSKEW_REQUIRE_SERVERS` says so."""
    try:
        command = [program(fetch=True), *map(str, arguments)]
    except EnvironmentFault as fault:
        (pytest.fail if REQUIRED else pytest.skip)(str(fault))
    done = subprocess.run(command, cwd=ROOT / "deploy", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def schema(name: str) -> dict[str, Any]:
    return json.loads((Path(__file__).with_name("crds") / f"{name}.json").read_text())


def refusals(given: object, by: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(by).iter_errors(given)]


@pytest.mark.programs
def test_dockers_reader_takes_the_compose_file():
    accepts(compose_reader, "-format", "json", "compose.yaml")


@pytest.mark.parametrize("name", _MANIFESTS)
def test_a_manifest_has_the_fields_of_its_kind_alone(name):
    given = _MANIFESTS[name]
    assert not refusals(given, schema(_KINDS[given["kind"], given["apiVersion"]]))


def test_kubeflows_pod_templates_are_kubernetes_own():
    """Its schema takes any object there. Apache's has Kubernetes' PodTemplateSpec."""
    whole = schema("apache")
    driver = whole["properties"]["spec"]["properties"]["driverSpec"]
    if "$ref" in driver:
        driver = whole["$defs"][driver["$ref"].rpartition("/")[2]]
    template = {**driver["properties"]["podTemplateSpec"], "$defs": whole["$defs"]}
    spec = _MANIFESTS["kubeflow: SparkApplication"]["spec"]
    assert not [spec[role] for role in ("driver", "executor") if refusals(spec[role]["template"], template)]
    assert refusals({"spec": {"containers": [{"name": "a", "evn": []}]}}, template)


@pytest.mark.programs
def test_actionlint_takes_the_workflows():
    accepts(actionlint, "-no-color", *(_GITHUB / "workflows").glob("*.yml"))


def test_zizmor_finds_no_hole_in_the_workflows():
    zizmor = Path(sys.executable).with_name("zizmor")
    accepts(lambda **_: zizmor, "--offline", "--no-progress", "--persona", "pedantic", _GITHUB)
