"""What a command's arguments ask for: a generator, or files."""

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.errors import UsageError
from producers.dataset import Dataset
from producers.readers.files import Files
from producers.readers.formats import FORMATS
from producers.readers.inputs import STANDARD_INPUT, inputs
from producers.readers.rejects import Rejects
from producers.registry import DATASETS, create, parsed
from producers.repeat import Repeated
from producers.since import Since, moment


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
        raise UsageError(f"which dataset? valid: {', '.join(DATASETS)}")
    try:
        chosen: Dataset = _files(asked, rejects) if asked.files else _generated(asked)
        if asked.since is not None:
            chosen = Since(chosen, moment(asked.since))
        return chosen if asked.times == 1 else Repeated(chosen, asked.times)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _generated(asked: Asked) -> Dataset:
    name = str(asked.dataset)
    options = parsed(name, [*asked.options, *([] if asked.scale is None else [f"scale={asked.scale}"])])
    return create(name, records=asked.records, seed=asked.seed, **options)


def _files(asked: Asked, rejects: Rejects) -> Files:
    name = str(asked.dataset).upper()
    if name not in DATASETS:
        raise UsageError(f"unknown dataset {asked.dataset!r}; valid: {', '.join(DATASETS)}")
    if name not in FORMATS:
        raise UsageError(f"{name} is not read from files; valid: {', '.join(FORMATS)}")
    if asked.options or asked.scale is not None:
        raise UsageError("--option and --scale are for generated records, not for files")
    if STANDARD_INPUT in asked.files and asked.times != 1:
        raise UsageError("standard input can be read only once: --repeat and --loop need files")
    return Files(name, inputs(asked.files), FORMATS[name], rejects, asked.records)
