"""Nothing is seeded by the clock or by chance: what a scheme draws comes from its seed."""

import ast
from pathlib import Path

import pytest

from unskew import grouping

FILES = sorted(Path(grouping.__file__).parent.rglob("*.py"))
SOURCES_OF_CHANCE = {"random", "secrets", "uuid", "datetime", "time"}
#: It measures how long routing takes.
MEASURES = "simulator/sources.py"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(FILES[0].parent).as_posix())
def test_no_clock_and_no_unseeded_draw(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported = {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported = {(node.module or "").partition(".")[0]}
        else:
            imported = set()
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
                assert node.args, f"line {node.lineno}: a generator without a seed"
        assert file.as_posix().endswith(MEASURES) or not imported & SOURCES_OF_CHANCE
