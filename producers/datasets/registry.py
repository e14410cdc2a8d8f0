"""The explicit list of all datasets, one per line, and their selection.

A new dataset is its file and its line here.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from unskew.errors import UsageError, suggest_names
from unskew.producers.datasets import synthetic
from unskew.producers.datasets.country import Country
from unskew.producers.datasets.interface import Dataset, DatasetTail, RepeatedDataset, parse_moment
from unskew.producers.datasets.nexmark import Nexmark
from unskew.producers.datasets.twitter import Election, Ticker
from unskew.producers.datasets.wikipedia import Clickstream, Pageviews, PageviewsByLang
from unskew.producers.readers.columns import ColumnDataset
from unskew.producers.readers.files import FileDataset, Format
from unskew.producers.readers.inputs import STANDARD_INPUT, find_inputs
from unskew.producers.readers.rejected_records import RejectLog
from unskew.shell import parse_pair, parse_value

#: Dataset → what generates it.
DATASETS: dict[str, Callable[..., Dataset]] = {
    **{f"COUNTRY_SKEW_R{ratio}": partial(Country, ratio) for ratio in range(0, 101, 10)},
    "COUNTRY_HALF_SKEW_R80": partial(Country, 80, half=True),
    "TWITTER_TICKER": Ticker,
    "TWITTER_ELECTION": Election,
    "WIKIPEDIA_PAGEVIEWS": Pageviews,
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": PageviewsByLang,
    "WIKIPEDIA_CLICKSTREAM": Clickstream,
    "NEXMARK": Nexmark,
    "ZIPF": synthetic.zipf_keys,
    "DRIFTING_ZIPF": synthetic.drifting_zipf,
    "LN1": synthetic.lognormal_1,
    "LN2": synthetic.lognormal_2,
    "POSG_UNIFORM": synthetic.posg_uniform,
    "POSG_ZIPF": synthetic.posg_zipf,
}
#: Dataset that is read from files → the format of a file, by the file's first line.
FORMATS: dict[str, Callable[[bytes], Format]] = {
    name: choose for name, make in DATASETS.items() if (choose := getattr(make, "choose_format", None))
}
#: One dataset of each kind: one of the country streams stands for all.
KINDS = [name for name in DATASETS if not name.startswith("COUNTRY") or name == "COUNTRY_SKEW_R80"]
# The parameters that every dataset has, and those that its name fixes.
_COMMON = ("records", "seed", "ratio", "half")


def create_dataset(name: str, *, records: int | None = None, seed: int = 0, **options: Any) -> Dataset:
    """Make the named dataset, in upper or lower case, generated from a seed, with parameters of its own (``options``).

    It has as many ``records`` as given, or by default. Raises ``ValueError`` if the dataset is unknown, it has no such
    parameter, or a value is invalid. The message lists what is valid.
    """
    make = _get_maker(name)
    for option in options:
        _require_parameter(name, get_parameters(name), option)
    if records is not None:
        options["records"] = records
    return make(seed=seed, **options)


def format_dataset_table() -> str:
    """A table as text, a line for each dataset: its name, whether files are read, and its summary."""
    rows = [(name, "yes" if name in FORMATS else "", create_dataset(name).summary) for name in DATASETS]
    rows.append((ColumnDataset.name, "only", "any column of Parquet, CSV or JSON lines: -o column=NAME"))
    width = max(len(name) for name, _, _ in rows)
    rows.insert(0, ("dataset", "files", "what is generated"))
    return "\n".join(f"{name:{width}}  {files:5}  {summary}" for name, files, summary in rows)


def create_at_scale(name: str, scale: float, seed: int) -> Dataset:
    """The named dataset, scaled if its sizes are published. Raises as ``create_dataset`` does."""
    options: dict[str, Any] = {"scale": scale} if "scale" in get_parameters(name) else {}
    return create_dataset(name, seed=seed, **options)


def get_parameters(name: str) -> dict[str, Any]:
    """The dataset's own parameters with their defaults. Raises ``ValueError`` if the dataset is unknown."""
    signature = inspect.signature(_get_maker(name))
    return {p.name: p.default for p in signature.parameters.values() if p.name not in _COMMON}


def parse_parameters(name: str, options: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts ``NAME=VALUE``, converted to the types of their defaults.

    Examples
    --------
    >>> parse_parameters("ZIPF", ["z=1.4", "keys=1000"])
    {'z': 1.4, 'keys': 1000}

    Raises
    ------
    UsageError
        A text isn't of that form, or a value is of another type.
    ValueError
        The dataset has no such parameter.

    """
    return parse_parameters_for(name, get_parameters(name), options)


def parse_parameters_for(name: str, valid: Mapping[str, Any], options: Iterable[str]) -> dict[str, Any]:
    """As ``parse_parameters``, for anything that has a name and parameters with the defaults in ``valid``."""
    values: dict[str, Any] = {}
    for option in options:
        key, text = parse_pair(option)
        kind = type(_require_parameter(name, valid, key))
        values[key] = parse_value(key, text, kind, "an integer" if kind is int else "a number")
    return values


def _get_maker(name: str) -> Callable[..., Dataset]:
    try:
        return DATASETS[name.upper()]
    except KeyError:
        raise ValueError(f"unknown dataset {name!r}{suggest_names(name, DATASETS)}") from None


def _require_parameter(name: str, valid: Mapping[str, Any], option: str) -> Any:
    if option not in valid:
        raise ValueError(f"{name} has no parameter {option!r}{suggest_names(option, valid)}")
    return valid[option]


_READ = (*FORMATS, ColumnDataset.name)
_COLUMN = {"column": "", "time": ""}


@dataclass(frozen=True, slots=True)
class DatasetArguments:
    """The arguments of ``unskew produce`` that choose the records."""

    dataset: str | None
    files: Sequence[str] = ()
    records: int | None = None
    scale: float | None = None
    seed: int = 0
    options: Sequence[str] = ()
    times: int | None = 1
    since: str | None = None


def select_dataset(arguments: DatasetArguments, rejects: RejectLog) -> Dataset:
    """The dataset that the arguments choose. It is generated or read from files.

    Raises ``UsageError`` if there is no such dataset, or a value is invalid.
    """
    if arguments.dataset is None:
        raise UsageError(f"which dataset? valid: {', '.join(DATASETS)}, {ColumnDataset.name}")
    try:
        chosen: Dataset = _open_files(arguments, rejects) if arguments.files else _generate_dataset(arguments)
        if arguments.since is not None:
            chosen = DatasetTail(chosen, parse_moment(arguments.since))
        return chosen if arguments.times == 1 else RepeatedDataset(chosen, arguments.times)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _generate_dataset(arguments: DatasetArguments) -> Dataset:
    name = str(arguments.dataset)
    if name.upper() == ColumnDataset.name:
        raise UsageError("COLUMN needs files to read a column of")
    options = parse_parameters(name, arguments.options)
    if arguments.scale is not None:
        if "scale" not in get_parameters(name):
            raise UsageError(f"{name} has no published size that --scale could change; --records says how many")
        options["scale"] = arguments.scale
    return create_dataset(name, records=arguments.records, seed=arguments.seed, **options)


def _open_files(arguments: DatasetArguments, rejects: RejectLog) -> Dataset:
    name = str(arguments.dataset).upper()
    if name not in _READ:
        there = f"{name} is not read from files" if name in DATASETS else f"unknown dataset {arguments.dataset!r}"
        raise UsageError(f"{there}{suggest_names(name, _READ)}")
    if arguments.scale is not None:
        raise UsageError("--scale is for generated records, not for files")
    if STANDARD_INPUT in arguments.files and arguments.times != 1:
        raise UsageError("standard input can be read only once: --repeat and --loop need files")
    found = find_inputs(arguments.files)
    if name == ColumnDataset.name:
        chosen = _COLUMN | parse_parameters_for(name, _COLUMN, arguments.options)
        return ColumnDataset(found, rejects, chosen["column"], chosen["time"], arguments.records)
    if arguments.options:
        raise UsageError("--option is for generated records and COLUMN, not for these files")
    return FileDataset(name, found, FORMATS[name], rejects, arguments.records)
