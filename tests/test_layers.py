"""The layers of packages: no import upwards, no package that stands in no layer, and no test that imports another."""

import ast
import tomllib
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[1]


def test_imports_go_downwards_only(monkeypatch):
    # The linter would disable all loggers of this process, which other tests listen to.
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)
    contract = str(ROOT / "pyproject.toml")
    assert lint_imports(config_filename=contract, no_cache=True, no_logo=True) == EXIT_STATUS_SUCCESS


def test_each_package_has_its_layer():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {name.strip() for contract in contracts for line in contract["layers"] for name in line.split("|")}
    source = ROOT / "src/unskew"
    there = {path.stem for path in source.iterdir() if path.is_dir() or path.suffix == ".py"}
    inside = {f"apps.{path.stem}" for path in (source / "apps").iterdir() if path.is_dir() or path.suffix == ".py"}
    packages = {f"unskew.{name}" for name in there - {"apps"} | inside if not name.rpartition(".")[2].startswith("__")}
    assert packages == layers


def test_no_test_imports_another():
    """What tests share lies in a module beside them: who changes a test needn't look who else runs on it."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) and any(map(_is_test, _imported(node)))
    ]
    assert found == []


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [f"{of}{alias.name}" for alias in node.names]


def _is_test(name: str) -> bool:
    return any(part.startswith("test_") for part in name.split("."))
