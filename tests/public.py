"""What is made of the code: `python -m tests.public` writes it.

What users build on stands in `tests/public.txt`, as lines of text: names with their arguments, commands with their
options, the grouping's options, the fields of records, the metrics, and the number of the checkpoints' format.
`docs/compatibility.md` says what is promised of them. The list of metrics on `docs/operations.md` and the dashboards
are written, too.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import typer

import unskew
from tests.pages import PAGES, blocks
from unskew import GROUPINGS, operators
from unskew.apps.checkpoint.checkpoint import FORMAT
from unskew.apps.cli.dashboards import metric_list
from unskew.apps.cli.main import app
from unskew.apps.metrics.catalogue import METRICS
from unskew.dashboards import checked_in
from unskew.dashboards.grafana.generate import render_dashboards
from unskew.grouping.registry import get_parameters

SNAPSHOT = Path(__file__).with_suffix(".txt")
PAGE = PAGES["docs/operations.md"]
RENEW = "python -m tests.public"


def public() -> list[str]:
    """The lines, each of which says one thing."""
    found = [*_names("unskew", unskew.__all__), *_works(), *_groupings(), *_commands()]
    return [*found, *_records(), *_metrics(), f"checkpoint format {FORMAT}"]


def _names(module: str, names: list[str]) -> Iterator[str]:
    for name in sorted(names):
        value = getattr(import_module(module), name)
        if isinstance(value, type):
            bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
            yield f"{module}.{name}{_arguments(value)}: {bases or 'a class'}"
            own = (each for each in vars(value) if not each.startswith("_"))
            yield from (f"{module}.{name}.{member}{_arguments(getattr(value, member))}" for member in sorted(own))
        else:
            yield f"{module}.{name}{_arguments(value)}"


def _works() -> Iterator[str]:
    """The works: their options, and by default the columns of their states, which checkpoints have, and results."""
    rest = set(operators.__all__) - set(unskew.__all__)
    abstract = {name for name in rest if not _has_schemas(getattr(operators, name))}
    yield from _names("unskew.operators", sorted(abstract))
    for name in sorted(rest - abstract):
        work = getattr(operators, name)
        yield f"unskew.operators.{name}{_arguments(work)}"
        made = work()
        for what, schema in (("state", made.state), ("results", made.results)):
            yield from (f"{what} of {name}: {field.name} {field.type}" for field in schema)


def _has_schemas(value: type) -> bool:
    """Whether it is a work whose states and results are known by itself, other than those of a user's function."""
    return (
        issubclass(value, operators.KeyedOperator) and not inspect.isabstract(value) and value is not operators.PerKey
    )


def _arguments(value: Any) -> str:
    """The arguments with their defaults, or the value. Types are left out: Pythons print these differently."""
    if not callable(value):
        return f" = {value!r}" if isinstance(value, int | str | tuple) else ""
    if isinstance(value, type) and issubclass(value, Exception):  # in C: not each Python knows their arguments
        return ""
    given = inspect.signature(value)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given.parameters.values()]
    return str(given.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _groupings() -> Iterator[str]:
    for name in sorted(GROUPINGS):
        options = ", ".join(f"{option}={default!r}" for option, default in sorted(get_parameters(name).items()))
        yield f"grouping {name} {GROUPINGS[name].short} ({options})"


def _commands() -> Iterator[str]:
    def walk(command: Any, path: str) -> Iterator[str]:
        nested = getattr(command, "commands", {})
        if not nested:
            options = [name for each in command.params for name in (*each.opts, *each.secondary_opts)]
            yield f"command {path}"
            yield from (f"command {path} {option}" for option in sorted(options))
        for name, each in sorted(nested.items()):
            yield from walk(each, f"{path} {name}")

    return walk(typer.main.get_command(app), "unskew")


def _records() -> Iterator[str]:
    """The fields of the records on docs/topics.md, which `tests/test_blocks.py` holds to those that a run publishes."""
    for block in blocks("docs/topics.md"):
        if block.language == "json":
            record = orjson.loads(block.code)
            kind = record["key"] if "grouping" in record.get("tags", {}) else _kind(record)
            yield from (f"record {kind}: {field}" for field in _fields(record, ""))


def _kind(record: dict[str, Any]) -> str:
    return "rejected" if "reason" in record else "result" if "batch" in record else "count"


def _fields(value: dict[str, Any], path: str) -> Iterator[str]:
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _fields(each, f"{path}{name}.")
        else:
            yield f"{path}{name} {type(each).__name__}"


def _metrics() -> Iterator[str]:
    for each in METRICS:
        labels = f" by {', '.join(each.subject.labels)}" if each.subject.labels else ""
        shown = f" · {each.prometheus_name}" if each.is_number else ""
        yield f"metric {each.subject.name} {each.name} ({each.kind}, {each.unit}){labels}{shown}"


def renew_metrics(text: str) -> str:
    """The page with the list of metrics as it is now: from the list's first line to the next heading."""
    listed = metric_list().rstrip()
    before, _, after = text.partition(listed.partition("\n")[0])
    _, heading, rest = after.partition("\n## ")
    return f"{before}{listed}\n{heading}{rest}"


def main() -> None:
    """Write what a change has renewed."""
    SNAPSHOT.write_text("".join(f"{line}\n" for line in public()), encoding="utf-8")
    PAGE.write_text(renew_metrics(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    changed = list(checked_in.write(render_dashboards(), checked_in.FOLDER))
    print(f"wrote {', '.join([SNAPSHOT.name, PAGE.name, *changed])}: say in CHANGELOG.md what users notice")


if __name__ == "__main__":
    main()
