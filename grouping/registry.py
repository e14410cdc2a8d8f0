"""All groupings, one line each. A new scheme needs a file and a line here."""

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from unskew.errors import UsageError, suggest_names
from unskew.grouping.bounded import BoundedLoad
from unskew.grouping.choices import DChoices, PartialKey, WChoices
from unskew.grouping.consistent_hash import ConsistentHash
from unskew.grouping.dynamic import DynamicKey
from unskew.grouping.interface import Grouping
from unskew.grouping.key import Key
from unskew.grouping.keys import encode_keys
from unskew.grouping.papers.dalton import Dalton
from unskew.grouping.papers.dynamic_key_decay import DynamicKeyDecay
from unskew.grouping.papers.full_knowledge import FullKnowledge
from unskew.grouping.papers.holistic import Holistic
from unskew.grouping.papers.porc import Porc
from unskew.grouping.papers.readj import Readj
from unskew.grouping.papers.sticky import OffGreedy, OnGreedy, Potc
from unskew.grouping.papers.table_schemes import Llfd, MinMig, MinTable, MixedBruteForce
from unskew.grouping.planned import Planned
from unskew.grouping.posg import Posg
from unskew.grouping.shuffle import Shuffle
from unskew.grouping.table import Mixed


class Registration(NamedTuple):
    """A scheme and its colours."""

    scheme: type[Grouping]  #: The scheme.
    #: Its colour on plots and in the terminal, as ``#rrggbb``. ``tests/monitoring/test_colours.py`` has free ones.
    colour: str
    #: The scheme in whose colour dashboards show it, because Grafana needs a rule for each colour on each panel. None:
    #: its own colour.
    shown_as: type[Grouping] | None = None


_LINES = (
    Registration(Shuffle, "#555555"),
    Registration(Key, "#d55e00"),
    Registration(FullKnowledge, "#bbbbbb", Shuffle),
    Registration(BoundedLoad, "#0072b2"),
    Registration(Planned, "#009e73"),
    Registration(PartialKey, "#e69f00"),
    Registration(DChoices, "#56b4e9"),
    Registration(WChoices, "#77aacc", DChoices),
    Registration(Holistic, "#99ccee", DChoices),
    Registration(Porc, "#446644", DChoices),
    Registration(Potc, "#7788dd", PartialKey),
    Registration(OnGreedy, "#33cc99", PartialKey),
    Registration(OffGreedy, "#8877ee", PartialKey),
    Registration(DynamicKey, "#cc79a7"),
    Registration(DynamicKeyDecay, "#bb5599", DynamicKey),
    Registration(Llfd, "#7722dd", Mixed),
    Registration(MinTable, "#992277", Mixed),
    Registration(MinMig, "#993399", Mixed),
    Registration(Mixed, "#7755dd"),
    Registration(MixedBruteForce, "#bb3377", Mixed),
    Registration(Readj, "#5555bb", Mixed),
    Registration(Posg, "#ccbb66"),
    Registration(ConsistentHash, "#775522"),
    Registration(Dalton, "#aa8844", Posg),
)

GROUPINGS: dict[str, type[Grouping]] = {line.scheme.name: line.scheme for line in _LINES}
#: Grouping → its colour. Those that readers meet first have the colours of Okabe and Ito
#: (https://jfly.uni-koeln.de/color/). KEY, whose load is uneven, has an alarming one; groupings that balance any stream
#: have calm ones. The others are as far apart as a search found, with and without colour blindness. All are legible on
#: white and on black.
COLOURS: dict[str, str] = {line.scheme.name: line.colour for line in _LINES}
#: The groupings that dashboards show in one colour, that of the first.
FAMILIES: tuple[tuple[str, ...], ...] = tuple(
    (first.scheme.name, *(line.scheme.name for line in _LINES if line.shown_as is first.scheme))
    for first in _LINES
    if first.shown_as is None
)
_NO_COLOUR = "#595959"


def get_grouping(name: str) -> type[Grouping]:
    """The scheme with this groupingType, in upper or lower case.

    Raises
    ------
    UsageError
        No scheme has this name. The message lists the valid names.

    """
    try:
        return GROUPINGS[to_capitals(name)]
    except KeyError:
        raise UsageError(f"unknown grouping {name!r}{suggest_names(name, GROUPINGS)}") from None


def get_colour(name: str) -> str:
    """The hex colour of a groupingType on plots and in the terminal; a neutral one if it is unknown."""
    return COLOURS.get(name, _NO_COLOUR)


def to_capitals(name: str) -> str:
    """A grouping's name, which may be unknown, in capitals, as used internally.

    Raises ``UsageError`` if it isn't a string.
    """
    if not isinstance(name, str):
        raise UsageError(f"unknown grouping {name!r}{suggest_names(name, GROUPINGS)}")
    return name.upper()


def get_parameters(name: str) -> dict[str, Any]:
    """The scheme's parameters and their defaults, without ``workers`` and ``seed``, which all schemes have.

    Examples
    --------
    >>> get_parameters("D_CHOICES")
    {'threshold': 0.2, 'tolerance': 0.0001, 'half_life': None, 'own_choices': False}

    """
    signature = inspect.signature(get_grouping(name).__init__)
    return {p.name: p.default for p in signature.parameters.values() if p.name not in ("self", "workers", "seed")}


def add_sources(name: str, sources: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a router of a stream with so many sources, including ``sources`` if the scheme has it."""
    return ({"sources": sources} if "sources" in get_parameters(name) else {}) | dict(options)


def create(name: str, workers: int, *, seed: int = 0, **options: Any) -> Grouping:
    """Create a router.

    Parameters
    ----------
    name : str
        One of ``GROUPINGS``, in capitals or not.
    workers : int
        The number of workers W.
    seed : int
        Chooses the hash functions, and must be the same for all sources of a stream.
    **options
        The scheme's parameters (``get_parameters``).

    Raises
    ------
    UsageError
        The scheme or a parameter is unknown, or a value is invalid. The message names the wrong one and the valid ones.
        A UsageError is a ValueError.

    Examples
    --------
    >>> keys = ["tr"] * 8 + ["de", "fr"]
    >>> create("KEY", workers=4).route(keys)
    array([3, 3, 3, 3, 3, 3, 3, 3, 3, 1], dtype=int32)
    >>> create("PLANNED", workers=4).route(keys)
    array([0, 0, 0, 2, 2, 2, 1, 1, 3, 1], dtype=int32)
    >>> create("KEY", workers=4, slack=0.1)
    Traceback (most recent call last):
        ...
    unskew.errors.UsageError: KEY has no parameter 'slack'; valid: none

    """
    valid = get_parameters(name)
    for option in options:
        if option not in valid:
            raise UsageError(f"{name} has no parameter {option!r}{suggest_names(option, valid)}")
    return get_grouping(name)(workers, seed=seed, **options)


def create_standalone(
    name: str, workers: int = 1, *, seed: int = 0, costs: bool = False, feedback: bool = False, **options: Any
) -> Grouping:
    """Create a router that needs only keys and times, for users' jobs and producers.

    ``costs``: the caller can also give each tuple's cost. ``feedback``: workers report to it. Raises ``UsageError`` as
    ``create``, or if with these options the scheme needs costs, or feedback, without which it would never change.
    """
    if to_capitals(name) not in GROUPINGS:
        raise UsageError(f"unknown grouping {name!r}{suggest_names(name, STANDALONE)}")
    router = create(name, workers, seed=seed, **options)
    what = _find_missing_input(router, costs=costs, feedback=feedback)
    if what:
        giving = "`topology`, `compare` and `simulate`"
        giving = (
            f"`balanced_map` and `keyed_map` over a stream with a checkpoint, {giving}" if what == _FEEDBACK else giving
        )
        given = options if router.name in STANDALONE else {}
        options_text = " with " + ", ".join(f"{option} {value}" for option, value in given.items()) if given else ""
        raise UsageError(
            f"{router.name}{options_text} needs {what}, which {giving} give; here valid: "
            f"{', '.join(STANDALONE)}" + " without that" * bool(given)
        )
    return router


_FEEDBACK = "feedback from the workers"


def _find_missing_input(router: Grouping, *, costs: bool = False, feedback: bool = False) -> str:
    """What a router needs besides keys and times, and perhaps costs and feedback, or empty."""
    if router.uses_cost and not costs:
        return "each tuple's cost before it is executed"
    return _FEEDBACK if router.controller() is not None and not feedback else ""


_INTERVAL = 4096  # tuples, four of POSG's windows: enough for all code of monitors and controllers

#: The groupings that need neither feedback nor costs by default.
STANDALONE = tuple(name for name, scheme in GROUPINGS.items() if not _find_missing_input(scheme(1)))
#: The groupings that balance known costs, and the standalone ones with workers' weights.
COSTED = tuple(name for name, scheme in GROUPINGS.items() if scheme.uses_cost or "balance" in get_parameters(name))
WEIGHTED = tuple(name for name in STANDALONE if "weights" in get_parameters(name))
#: The standalone groupings that can limit each key's workers.
CAPPED = tuple(name for name in STANDALONE if "most_workers" in get_parameters(name))
#: The standalone groupings that keep a key at one worker for ever, for every source.
STICKY = tuple(name for name in STANDALONE if GROUPINGS[name].is_sticky)

#: The groupings with a key at one worker at a time, including those that move it by plans.
SINGLE_OWNER = tuple(name for name, scheme in GROUPINGS.items() if scheme.is_sticky or scheme.migrates_keys)


def compile_all() -> None:
    """Compile all schemes' kernels into numba's cache, at set-up.

    It takes a minute the first time and a second afterwards.
    """
    for name in GROUPINGS:
        warm_kernels(name)


def warm_kernels(name: str) -> None:
    """Compile one scheme's kernels, or load them from numba's cache, so that its first tuples don't wait.

    That includes its monitors' and its controller's.
    """
    for keys in (["a", "b", "a"], np.arange(3)):
        router = create(name, 3)
        router.fit(keys)
        router.route(keys, times=0, costs=1.0)
        router.load(router.save())
    _run_feedback(create(name, 3))


def _run_feedback(router: Grouping) -> None:
    """Run a router's feedback loop for three intervals, to compile its monitors' and controller's kernels."""
    controller, monitors = router.controller(), [router.monitor() for _ in range(router.workers)]
    if controller is None:
        return
    keys = encode_keys(np.arange(_INTERVAL) % 20)
    for _ in range(3):
        router.route(keys)
        reports = {}
        for worker, monitor in enumerate(monitors):
            if monitor is not None:
                monitor.observe(keys, keys.codes.astype(np.float64))
                report = monitor.report()
                reports |= {} if report is None else {worker: report}
        of_source = router.report()
        plan = controller.plan(reports, list(range(router.workers)), {} if of_source is None else {0: of_source})
        if plan is not None:
            router.adopt(plan)
