"""TypeScript checks the dashboards' JSON against Grafana's own types: no misspelt key, no value of another kind."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programs import lacking
from unskew.dashboards.checked_in import dashboards
from unskew.directories import cache_directory

pytestmark = [pytest.mark.slow, pytest.mark.programs]

_COMPOSE = Path(__file__).parents[2] / "deploy" / "compose.yaml"
_TYPESCRIPT = "5.9.3"
#: The oldest schema that the dashboards keep to; what fits it fits all later ones.
_OLDEST = "12.4.11"

_PANELS = {
    "barchart": "BarChart",
    "bargauge": "BarGauge",
    "stat": "Stat",
    "table": "Table",
    "timeseries": "TimeSeries",
}
_PREAMBLE = """
import type { AnnotationQuery, Dashboard, DataQuery } from '@grafana/schema';
// JSON has no enums: their values will do.
type Plain<T> = T extends string ? `${T}`
  : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Plain<U>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> }
  : T;
// The schema knows no data source but the built-in one's queries, and not what Prometheus' marks have besides.
type PromQL = { expr: string; legendFormat: string; range: boolean };
type Mark = AnnotationQuery<DataQuery & ({ query: string } | PromQL)> & { titleFormat?: string };
type Page = Plain<Omit<Dashboard, 'annotations'> & { annotations: { list: Mark[] } }>;
"""


def in_compose() -> str:
    """The Grafana that compose.yaml runs."""
    found = re.search(r"grafana/grafana:(\d+\.\d+\.\d+)", _COMPOSE.read_text())
    assert found
    return found[1]


@pytest.fixture(params=["as in compose.yaml", "oldest"])
def packages(request) -> Path:
    """A directory with TypeScript and one version of Grafana's schema, installed once for all checkouts."""
    version = _OLDEST if request.param == "oldest" else in_compose()
    folder = cache_directory() / "grafana-schema" / f"{version}-typescript-{_TYPESCRIPT}"
    if (folder / "installed").exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        lacking("npm is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    pinned = {"@grafana/schema": version, "typescript": _TYPESCRIPT}
    (folder / "package.json").write_text(json.dumps({"private": True, "type": "module", "dependencies": pinned}))
    install = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lacking(f"npm can't install {pinned}: {done.stderr[-500:]}")
    (folder / "installed").touch()
    return folder


def source(pages: dict[str, dict[str, Any]]) -> str:
    """The dashboards as constants of Grafana's types."""
    lines = [_PREAMBLE]
    lines += [
        f"import type * as {kind} from '@grafana/schema/dist/esm/raw/composable/{kind}/panelcfg/x/"
        f"{name}PanelCfg_types.gen';"
        for kind, name in _PANELS.items()
    ]
    for name, page in pages.items():
        lines.append(f"export const {name}: Page = {json.dumps(page)};")
        for panel in page["panels"]:
            kind, at = panel["type"], f"{name}_{panel['id']}"
            lines.append(f"export const {at}: Plain<Partial<{kind}.Options>> = {json.dumps(panel['options'])};")
            if custom := panel["fieldConfig"]["defaults"].get("custom"):
                lines.append(f"export const {at}_field: Plain<Partial<{kind}.FieldConfig>> = {json.dumps(custom)};")
    return "\n".join(lines) + "\n"


def complaints(packages: Path, pages: dict[str, dict[str, Any]]) -> str:
    file = packages / f"dashboards-{os.getpid()}.ts"
    file.write_text(source(pages))
    strict = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]
    compiler = ["node", packages / "node_modules" / "typescript" / "bin" / "tsc"]
    try:
        done = subprocess.run([*compiler, *strict, file], cwd=packages, capture_output=True, text=True, check=False)
    finally:
        file.unlink()
    assert done.returncode == 0 or done.stdout, done.stderr
    return done.stdout


def test_the_dashboards_are_of_grafanas_types(packages):
    assert complaints(packages, dashboards()) == ""
    overview = dashboards()["overview"]
    misspelt = {**overview, "panels": [{**overview["panels"][0], "descripton": "?"}]}
    assert "descripton" in complaints(packages, {"overview": misspelt}), "the compiler looks at them"
