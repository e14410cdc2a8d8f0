"""The options of `unskew simulate`: imported for the command's help, which needn't wait for pyarrow and numba."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.apps.cli.option_groups import JsonOption, OperatorOptions, parse_parameters
from unskew.apps.settings import parse_numbers, spell_grouping
from unskew.errors import UsageError
from unskew.shell import parse_pair

_timing_option = partial(typer.Option, rich_help_panel="Timing options")
_batch_option = partial(typer.Option, rich_help_panel="Options of the time that batches take")
_sweep_option = partial(typer.Option, rich_help_panel="Options of a table of many simulations")
_STREAM = "zipf:z=1.2,k=100000"
_LEAST_INTERVAL = 0.001  # s; of many shorter ones the simulation would have no end
#: The options of the simulation that --sweep may vary; all other names are groupings' parameters.
_SWEPT = {"sources": int, "seed": int, "tuples": int, "load": float, "feedback_interval": float}
#: Option → what it takes, and the options that go with it.
_ALLOWED = {
    "join": ("one stream besides its own", ("workers", "tuples", "batch", "seed", "json")),
    "write": ("one stream", ("workers", "tuples", "seed", "json")),
}
_OF_QUEUES = ("load", "poisson", "recorded", "feedback_interval", "feedback_delay", "feedback_transfer", "stretches")
_OF_MEASURES = ("window", "samples")


@dataclass(frozen=True)
class BatchOptions:
    """What tuples and batches cost."""

    cost: Annotated[
        str | None,
        typer.Option(
            metavar="MS,…",
            help="Cost of a tuple (ms): shows how long batches take. Several costs, or 1..64: one for each class of "
            "keys.",
            show_default="1 in queues",
        ),
    ] = None
    cores: Annotated[
        int | None,
        _batch_option(
            min=1,
            help="Cores that compute the tuples' cost, for all workers.",
            show_default="--cost is waiting, --work computes on the cores of this machine",
        ),
    ] = None
    batch: Annotated[
        int | None,
        _batch_option(
            min=1,
            help="Tuples of a batch, including PLANNED's if batch times aren't requested.",
            show_default="a second of all workers' work, at most a million",
        ),
    ] = None
    fixed: Annotated[
        float | None, _batch_option(min=0, help="Fixed cost of a batch on your cluster (ms).", show_default="400")
    ] = None

    def is_asked(self, work: OperatorOptions) -> bool:
        """Whether the time of batches is asked for.

        Raises ``UsageError`` if options contradict each other.
        """
        if self.cost is not None and work.work is not None:
            raise UsageError("--cost and --work are both given; valid: one of them, as --work measures the cost")
        if work.work_option and work.work is None:
            raise UsageError(f"--work-option is {work.work_option[0]!r}; valid: with --work")
        asked = self.cost is not None or work.work is not None
        given = [name for name in ("cores", "fixed") if getattr(self, name) is not None]
        if given and not asked:
            raise UsageError(f"--{given[0]} is about the time of batches; valid: with --cost or --work")
        return asked

    @property
    def costs(self) -> list[float]:
        """The cost (ms) of each class of keys."""
        return parse_numbers("--cost", self.cost or "1")


@dataclass(frozen=True)
class SimulationOptions:
    """What is simulated: streams, groupings and workers."""

    stream: Annotated[
        list[str] | None,
        typer.Argument(
            help="A generator such as zipf:z=1.2,k=100000, a dataset such as COUNTRY_SKEW_R80, "
            "FILE:COLUMN (Parquet, CSV, TSV, JSON lines), counts:FILE.csv (key,count), kafka:TOPIC or "
            "kafka:TOPIC:FIELD. Several streams give one table.",
            show_default=_STREAM,
        ),
    ] = None
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Groupings; NAME:PARAMETER=VALUE:… sets parameters.")
    ] = "PLANNED,BOUNDED_LOAD,PARTIAL_KEY,D_CHOICES,W_CHOICES,DYNAMIC_KEY,KEY,SHUFFLE"
    workers: Annotated[str, typer.Option(metavar="W,…", help="Number of workers W; several numbers give a curve.")] = (
        "10"
    )
    sources: Annotated[
        int | None, typer.Option(min=1, help="Number of sources S.", show_default="a topic's partitions, otherwise 5")
    ] = None
    tuples: Annotated[int, typer.Option(min=1, help="Maximum of tuples to simulate; a stream may have fewer.")] = (
        1_000_000
    )
    split: Annotated[str, typer.Option(help="How tuples are spread over the sources: 'even', or by 'key'.")] = "even"
    factors: Annotated[
        str,
        typer.Option(metavar="F,…", help="Each worker's multiple of --cost, such as 1,1,2; repeated over the workers."),
    ] = "1"
    factors_end: Annotated[
        str | None,
        typer.Option(
            metavar="F,…", help="The factors at the end, to which the workers' speeds drift.", show_default="no drift"
        ),
    ] = None
    load: Annotated[float, _timing_option(help="Share of the workers' capacity that the stream needs.")] = 0.8
    poisson: Annotated[bool, _timing_option(help="Draw the times between arrivals at random.")] = False
    recorded: Annotated[
        bool, _timing_option(help="Use the recorded times of arrival: a column 'time', or Kafka's timestamps.")
    ] = False
    window: Annotated[
        float | None, _timing_option(help="How often partial results go to the aggregator (s).", show_default="end")
    ] = None
    feedback_interval: Annotated[float, _timing_option(help="Time between reports (s).")] = 1.0
    feedback_delay: Annotated[float, _timing_option(help="Time until a plan takes effect (s).")] = 0.0
    feedback_transfer: Annotated[
        float, _timing_option(help="Time that a move of a state takes both workers, for each tuple in it (ms).")
    ] = 0.0
    join: Annotated[
        str | None,
        typer.Option(
            metavar="STREAM",
            help="Join the stream with this one by key, and show the workers' loads with each join method.",
        ),
    ] = None
    write: Annotated[
        bool, typer.Option("--write", help="Write a table partitioned by key; shows each method's files and tasks.")
    ] = False
    samples: Annotated[int, typer.Option(min=1, help="Number of points of each series.")] = 200
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stream and the hash functions.")] = 0
    sweep: Annotated[
        list[str] | None,
        _sweep_option(
            metavar="NAME=VALUE,…",
            help="Simulate with each of these values, and print one table: of a parameter of groupings, such as "
            f"slack=0.02,0.07, or of {', '.join(_SWEPT)}. Can be repeated.",
        ),
    ] = None
    stretches: Annotated[
        int,
        _sweep_option(
            min=1, help="Sections of a changing stream: the bound uses a key's greatest share in any section."
        ),
    ] = 1

    @property
    def streams(self) -> list[str]:
        """The streams, one at least."""
        return self.stream or [_STREAM]

    @property
    def is_swept(self) -> bool:
        """Whether there are several simulations, besides those of groupings and workers."""
        return bool(self.sweep) or len(self.streams) > 1

    @property
    def _sweeps(self) -> dict[str, list[str]]:
        """Name → the values to simulate with."""
        swept: dict[str, list[str]] = {}
        for text in self.sweep or []:
            name, values = parse_pair(text, "--sweep")
            if (name := name.replace("-", "_")) in swept:
                raise UsageError(f"--sweep {name} is given twice; valid: --sweep {name}=VALUE,… with all values")
            swept[name] = [value for value in values.split(",") if value]
            if not swept[name]:
                raise UsageError(f"--sweep is {text!r}; valid: NAME=VALUE,…")
        return swept

    def cases(self) -> "Iterator[tuple[dict[str, float], SimulationOptions]]":
        """Each combination of the options that are swept: their values, and all options with these."""
        swept = {name: values for name, values in self._sweeps.items() if name in _SWEPT}
        least = {"sources": 1, "tuples": 1}
        read = [
            [kind(one) for one in parse_numbers(f"--sweep {name}", text, whole=kind is int, least=least.get(name, 0))]
            for name, text, kind in ((name, ",".join(values), _SWEPT[name]) for name, values in swept.items())
        ]
        for values in product(*read):
            case = dict(zip(swept, values, strict=True))
            yield case, replace(self, **case)

    @property
    def schemes(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The groupings as (label, name, parameters)."""
        # A comma before a number belongs to a parameter of several numbers: weights=1,1,2.
        texts = [text.strip() for text in re.split(r",(?!\s*[-+.\d])", self.groupings) if text.strip()]
        if not texts:
            raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,PARTIAL_KEY")
        swept = {name: values for name, values in self._sweeps.items() if name not in _SWEPT}
        return [_parse_grouping(each) for text in texts for each in _expand_grouping(text, swept, texts)]

    @property
    def worker_counts(self) -> list[int]:
        return [int(number) for number in parse_numbers("--workers", self.workers, least=1, whole=True)]

    @property
    def speeds(self) -> dict[str, list[float] | None]:
        """The workers' factors at the beginning, and at the end."""
        end = self.factors_end
        return {
            "factors": parse_numbers("--factors", self.factors),
            "factors_end": None if end is None else parse_numbers("--factors-end", end),
        }

    def arguments(self) -> dict[str, Any]:
        """The simulation's arguments besides keys, their times and costs, and the number of sources."""
        from unskew.grouping.arguments import check_number
        from unskew.grouping.simulator import FeedbackTiming

        # Checked here, where an error has the option's name and its unit.
        feedback = FeedbackTiming(
            1000 * check_number("--feedback-interval", self.feedback_interval, _LEAST_INTERVAL),
            1000 * check_number("--feedback-delay", self.feedback_delay, 0),
            check_number("--feedback-transfer", self.feedback_transfer, 0),
        )
        window = None if self.window is None else 1000 * check_number("--window", self.window, 0, above=True)
        settings = {"split": self.split, "samples": self.samples, "window": window}
        arrivals = {"load": self.load, "poisson": self.poisson, "seed": self.seed}
        return {**self.speeds, **arrivals, "feedback": feedback, "settings": settings}


@dataclass(frozen=True)
class OutputOptions:
    """What is shown of a simulation, and where."""

    details: Annotated[
        bool, typer.Option("--details", help="Show imbalance, queues, times and messages of each grouping too.")
    ] = False
    show: Annotated[
        str | None,
        _sweep_option(
            metavar="FIGURE,…",
            help="One table, and what its cells show: replication (workers a key), excess (that over the bound), added "
            "(states besides each key's first), fullest (keys of one worker), lasting and worst (max/mean of the "
            "second half's tenths, their mean and greatest), hottest (workers of the hottest key), score.",
            show_default="replication,lasting, with several streams or --sweep",
        ),
    ] = None
    output: Annotated[Path | None, typer.Option(help="Directory for series.parquet, figures.csv and pictures.")] = None
    as_json: JsonOption = False


def _expand_grouping(text: str, swept: Mapping[str, Sequence[str]], every: Sequence[str]) -> Iterator[str]:
    """The grouping with each combination of values of those swept parameters that it has."""
    from unskew.grouping import get_parameters

    named = {each: spell_grouping(each.partition(":")[0]) for each in every}
    for name in swept:
        if not any(name in get_parameters(each) for each in named.values()):
            valid = sorted({*_SWEPT, *(one for each in named.values() for one in get_parameters(each))})
            raise UsageError(f"--sweep: nothing to simulate has {name!r}; valid: {', '.join(valid)}")
    own = {name: values for name, values in swept.items() if name in get_parameters(named[text])}
    for values in product(*own.values()):
        yield ":".join([text, *(f"{name}={value}" for name, value in zip(own, values, strict=True))])


def _parse_grouping(text: str) -> tuple[str, str, dict[str, Any]]:
    """``NAME:OPTION=VALUE:…`` as (label, name, options)."""
    name, *pairs = text.split(":")
    name, given = spell_grouping(name), [parse_pair(pair, "--groupings") for pair in pairs]
    return ":".join([name, *pairs]), name, parse_parameters(given, [name])[name]


def refuse_other_options(what: str, options: Iterable[Any]) -> None:
    """Refuse options that say nothing of a join or a write, and more or less than one stream."""
    takes, allowed = _ALLOWED[what]
    given = _find_given(options)
    if len(given.pop("stream", None) or ()) != 1:
        valid = {"join": "INPUT --join INPUT2", "write": "INPUT --write"}[what]
        raise UsageError(f"--{what} takes {takes}; valid: unskew simulate {valid}")
    valid = ", ".join(f"--{each}" for each in allowed)
    _refuse(given, given.keys() - {what, "as_json", *allowed}, f"a {what}", f"valid with --{what}: {valid}")


def refuse_for_table(options: Iterable[Any]) -> None:
    """Refuse options that say nothing of a table of many simulations."""
    valid = "valid: with one stream, and without --sweep and --show"
    _refuse(_find_given(options), {"details", *_OF_MEASURES}, "a table of many simulations", valid)


def refuse_for_times(options: Iterable[Any]) -> None:
    """Refuse options that say nothing of the time of batches, which needs no arrivals and no queues."""
    given = _find_given(options)
    if not given.keys() & {"details", "output"}:
        valid = "valid: with --details or --output, or without --cost and --work"
        _refuse(given, {*_OF_QUEUES, *_OF_MEASURES}, "the time of batches", valid)


def _find_given(options: Iterable[Any]) -> dict[str, Any]:
    """The options that aren't their defaults: name → value."""
    every = ((each, getattr(of, each.name)) for of in options for each in fields(of))
    return {each.name: value for each, value in every if value != each.default}


def _refuse(given: Iterable[str], refused: Iterable[str], what: str, valid: str) -> None:
    """Refuse the first given option that is one of these."""
    for name in given:
        if name in refused:
            option = name.removeprefix("as_").replace("_", "-")
            raise UsageError(f"--{option} says nothing of {what}; {valid}")
