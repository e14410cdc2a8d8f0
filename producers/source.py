"""What a command's arguments ask for: a generator, or files."""

from collections.abc import Sequence
from dataclasses import dataclass

from unskew.errors import UsageError
from unskew.producers.dataset import Dataset
from unskew.producers.readers.columns import Columns
from unskew.producers.readers.files import Files
from unskew.producers.readers.formats import FORMATS
from unskew.producers.readers.inputs import STANDARD_INPUT, inputs
from unskew.producers.readers.rejects import Rejects
from unskew.producers.registry import DATASETS, create, parameters, parsed, parsed_for
from unskew.producers.repeat import Repeated
from unskew.producers.since import Since, moment

_READ = (*FORMATS, Columns.name)
_COLUMN = {"column": "", "time": ""}


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments that choose the records; as ``unskew produce`` has them."""

    dataset: str | None
    files: Sequence[str] = ()
    records: int | None = None
    scale: float | None = None
    seed: int = 0
    options: Sequence[str] = ()
    times: int | None = 1
    since: str | None = None


def source(asked: Asked, rejects: Rejects) -> Dataset:
    """The dataset that is asked for.

    Raises
    ------
    UsageError
        There is none, or a value is wrong.

    """
    if asked.dataset is None:
        raise UsageError(f"which dataset? valid: {', '.join(DATASETS)}, {Columns.name}")
    try:
        chosen: Dataset = _files(asked, rejects) if asked.files else _generated(asked)
        if asked.since is not None:
            chosen = Since(chosen, moment(asked.since))
        return chosen if asked.times == 1 else Repeated(chosen, asked.times)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _generated(asked: Asked) -> Dataset:
    name = str(asked.dataset)
    if name.upper() == Columns.name:
        raise UsageError("COLUMN needs files to read a column of")
    options = parsed(name, asked.options)
    if asked.scale is not None:
        if "scale" not in parameters(name):
            raise UsageError(f"{name} has no published size that --scale could change; --records says how many")
        options["scale"] = asked.scale
    return create(name, records=asked.records, seed=asked.seed, **options)


def _files(asked: Asked, rejects: Rejects) -> Dataset:
    name = str(asked.dataset).upper()
    if name not in _READ:
        there = f"{name} is not read from files" if name in DATASETS else f"unknown dataset {asked.dataset!r}"
        raise UsageError(f"{there}; valid: {', '.join(_READ)}")
    if asked.scale is not None:
        raise UsageError("--scale is for generated records, not for files")
    if STANDARD_INPUT in asked.files and asked.times != 1:
        raise UsageError("standard input can be read only once: --repeat and --loop need files")
    found = inputs(asked.files)
    if name == Columns.name:
        chosen = _COLUMN | parsed_for(name, _COLUMN, asked.options)
        return Columns(found, rejects, chosen["column"], chosen["time"], asked.records)
    if asked.options:
        raise UsageError("--option is for generated records and COLUMN, not for these files")
    return Files(name, found, FORMATS[name], rejects, asked.records)
