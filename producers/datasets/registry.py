"""The explicit list of all datasets, a line each, and the choice among them.

A new dataset is its file and its line here.

``DATASETS`` has a line for each generator, ``FORMATS`` one for each dataset that can be read from files.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from unskew.errors import UsageError, suggest_names
from unskew.producers.datasets import synthetic
from unskew.producers.datasets.country import Country
from unskew.producers.datasets.interface import Dataset, Repeated, Since, moment
from unskew.producers.datasets.nexmark import Nexmark
from unskew.producers.datasets.twitter import Election, Ticker
from unskew.producers.datasets.wikipedia import Clickstream, Pageviews, PageviewsByLang
from unskew.producers.readers import formats
from unskew.producers.readers.columns import Columns
from unskew.producers.readers.files import Files, Format
from unskew.producers.readers.inputs import STANDARD_INPUT, inputs
from unskew.producers.readers.rejected_records import Rejects
from unskew.shell import pair, value

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
#: Dataset → the format of a file, by the file's first line.
FORMATS: dict[str, Callable[[bytes], Format]] = {
    "TWITTER_TICKER": formats.tickers_or_tweets,
    "TWITTER_ELECTION": lambda _: formats.tweet_hashtags,
    "WIKIPEDIA_PAGEVIEWS": formats.pageviews_or_trace,
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": lambda _: formats.hourly_pageviews,
    "WIKIPEDIA_CLICKSTREAM": lambda _: formats.clickstream,
}
# The parameters that every dataset has, and those that its name fixes.
_COMMON = ("records", "seed", "ratio", "half")


def create(name: str, *, records: int | None = None, seed: int = 0, **options: Any) -> Dataset:
    """Make the named dataset, generated from a seed.

    Parameters
    ----------
    name : str
        The source type; upper and lower case are the same.
    records : int or None
        How many records. None: as many as the dataset has by default.
    seed : int
        Chooses the random draws.
    **options
        The dataset's own parameters.

    Raises
    ------
    ValueError
        The dataset is unknown, it has no such parameter, or a value is invalid. The message lists what is valid.

    """
    make = _maker(name)
    for option in options:
        _require(name, parameters(name), option)
    if records is not None:
        options["records"] = records
    return make(seed=seed, **options)


def listing() -> str:
    """A table as text, a line for each dataset: its name, whether files are read, and its summary."""
    rows = [(name, "yes" if name in FORMATS else "", create(name).summary) for name in DATASETS]
    rows.append((Columns.name, "only", "any column of Parquet, CSV or JSON lines: -o column=NAME"))
    width = max(len(name) for name, _, _ in rows)
    rows.insert(0, ("dataset", "files", "what is generated"))
    return "\n".join(f"{name:{width}}  {files:5}  {summary}" for name, files, summary in rows)


def at_scale(name: str, scale: float, seed: int) -> Dataset:
    """The named dataset, scaled if its sizes are published. Raises as ``create`` does."""
    options: dict[str, Any] = {"scale": scale} if "scale" in parameters(name) else {}
    return create(name, seed=seed, **options)


def parameters(name: str) -> dict[str, Any]:
    """The dataset's own parameters with their defaults.

    Raises
    ------
    ValueError
        The dataset is unknown.

    """
    signature = inspect.signature(_maker(name))
    return {p.name: p.default for p in signature.parameters.values() if p.name not in _COMMON}


def parsed(name: str, options: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts ``NAME=VALUE``, converted to the types of their defaults.

    Examples
    --------
    >>> parsed("ZIPF", ["z=1.4", "keys=1000"])
    {'z': 1.4, 'keys': 1000}

    Raises
    ------
    UsageError
        A text isn't of that form, or a value is of another type.
    ValueError
        The dataset has no such parameter.

    """
    return parsed_for(name, parameters(name), options)


def parsed_for(name: str, valid: Mapping[str, Any], options: Iterable[str]) -> dict[str, Any]:
    """As ``parsed``, for anything that has a name and parameters with the defaults in ``valid``."""
    values: dict[str, Any] = {}
    for option in options:
        key, text = pair(option)
        kind = type(_require(name, valid, key))
        values[key] = value(key, text, kind, "an integer" if kind is int else "a number")
    return values


def _maker(name: str) -> Callable[..., Dataset]:
    try:
        return DATASETS[name.upper()]
    except KeyError:
        raise ValueError(f"unknown dataset {name!r}{suggest_names(name, DATASETS)}") from None


def _require(name: str, valid: Mapping[str, Any], option: str) -> Any:
    if option not in valid:
        raise ValueError(f"{name} has no parameter {option!r}{suggest_names(option, valid)}")
    return valid[option]


_READ = (*FORMATS, Columns.name)
_COLUMN = {"column": "", "time": ""}


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of ``unskew produce`` that choose the records."""

    dataset: str | None
    files: Sequence[str] = ()
    records: int | None = None
    scale: float | None = None
    seed: int = 0
    options: Sequence[str] = ()
    times: int | None = 1
    since: str | None = None


def selected(arguments: Arguments, rejects: Rejects) -> Dataset:
    """The dataset that the arguments choose. It is generated or read from files.

    Raises
    ------
    UsageError
        There is no such dataset, or a value is invalid.

    """
    if arguments.dataset is None:
        raise UsageError(f"which dataset? valid: {', '.join(DATASETS)}, {Columns.name}")
    try:
        chosen: Dataset = _files(arguments, rejects) if arguments.files else _generated(arguments)
        if arguments.since is not None:
            chosen = Since(chosen, moment(arguments.since))
        return chosen if arguments.times == 1 else Repeated(chosen, arguments.times)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _generated(arguments: Arguments) -> Dataset:
    name = str(arguments.dataset)
    if name.upper() == Columns.name:
        raise UsageError("COLUMN needs files to read a column of")
    options = parsed(name, arguments.options)
    if arguments.scale is not None:
        if "scale" not in parameters(name):
            raise UsageError(f"{name} has no published size that --scale could change; --records says how many")
        options["scale"] = arguments.scale
    return create(name, records=arguments.records, seed=arguments.seed, **options)


def _files(arguments: Arguments, rejects: Rejects) -> Dataset:
    name = str(arguments.dataset).upper()
    if name not in _READ:
        there = f"{name} is not read from files" if name in DATASETS else f"unknown dataset {arguments.dataset!r}"
        raise UsageError(f"{there}{suggest_names(name, _READ)}")
    if arguments.scale is not None:
        raise UsageError("--scale is for generated records, not for files")
    if STANDARD_INPUT in arguments.files and arguments.times != 1:
        raise UsageError("standard input can be read only once: --repeat and --loop need files")
    found = inputs(arguments.files)
    if name == Columns.name:
        chosen = _COLUMN | parsed_for(name, _COLUMN, arguments.options)
        return Columns(found, rejects, chosen["column"], chosen["time"], arguments.records)
    if arguments.options:
        raise UsageError("--option is for generated records and COLUMN, not for these files")
    return Files(name, found, FORMATS[name], rejects, arguments.records)
