"""Where docstrings have examples, and which of these need Spark."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_ROOMS = ("apps", "dashboards", "deploy", "grouping", "producers")
_PACKAGES = ("unskew", *(f"unskew.{room}" for room in _ROOMS), "evidence.papers")
_SESSION = re.compile(r">>> (?!.*\+SKIP).*(?<![\w.\"])spark[.,)]")  # a line that needs a session, the name `spark`


def with_examples(*, spark: bool) -> Iterator[str]:
    """The names of all modules with examples that need a session (``spark``), or that need none."""
    for package in map(import_module, _PACKAGES):
        for folder in package.__path__:
            found = Path(folder)
            for file in sorted(found.rglob("*.py")):
                text = file.read_text()
                if ">>>" in text and bool(_SESSION.search(text)) == spark:
                    place = file.relative_to(found).with_suffix("")
                    yield ".".join([package.__name__, *(part for part in place.parts if part != "__init__")])
