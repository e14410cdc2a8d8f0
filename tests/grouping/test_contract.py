"""The contract, over every grouping of the registry: a new one is covered by its line there. No clock seeds one."""

import ast
import inspect
import math
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
import pytest

from tests.grouping.contract import CHECKS, SKIPPED, routed
from tests.grouping.schemes import SCHEMES, over
from tests.grouping.skewed import skewed
from unskew import grouping
from unskew.errors import UsageError
from unskew.grouping import GROUPINGS, create, get_grouping, get_parameters
from unskew.grouping.registry import WEIGHTED

schemes = over(SCHEMES)


@schemes
def test_contract(name, options, elsewhere, subtests):
    for check in CHECKS:
        if (name, check.__name__) not in SKIPPED:
            with subtests.test(check.__name__):
                check(lambda workers, seed=0: create(name, workers, seed=seed, **options))
    with subtests.test("restored in another process"):
        stream = skewed()
        first = create(name, 10, **options)
        routed(first, stream.part(0, 1500))
        rest = elsewhere.submit(_go_on, name, options, first.save(), stream.part(1500, len(stream))).result()
        assert rest == routed(first, stream.part(1500, len(stream))).tolist()


@pytest.fixture(scope="module")
def elsewhere():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def _go_on(name, options, state, stream):
    router = create(name, 10, **options)
    router.load(state)
    return routed(router, stream).tolist()


def test_skips_name_what_there_is():
    checks = {check.__name__ for check in CHECKS}
    for name, check in SKIPPED:
        assert name in GROUPINGS
        assert check in checks


def test_names():
    shorts = [scheme.short for scheme in GROUPINGS.values()]
    assert len(set(shorts)) == len(shorts)
    for name, scheme in GROUPINGS.items():
        assert re.fullmatch(r"[A-Z][A-Z_]*", name)
        assert re.fullmatch(r"[a-z0-9-]+", scheme.short)  # it's a part of topic names
        assert get_grouping(name.lower()) is scheme


def test_docstrings(subtests):
    """Each says what it guarantees, what it costs, where it comes from, and shows itself on a few keys."""
    for name, scheme in GROUPINGS.items():
        with subtests.test(name):
            text = scheme.__doc__ or ""
            for heading in ("Guarantees", "References", "Examples"):
                assert f"\n    {heading}\n    ---" in text
            assert re.search(r"\bTime O\(", text)
            assert re.search(r"[Mm]emory", text)
            assert all(parameter in text for parameter in get_parameters(name))


def test_unknown_names():
    with pytest.raises(ValueError, match=r"unknown grouping 'NONE'; valid: SHUFFLE, KEY"):
        create("NONE", 3)
    with pytest.raises(UsageError, match=r"unknown grouping 5; valid: SHUFFLE, KEY"):
        create(cast("Any", 5), 3)
    with pytest.raises(ValueError, match=r"KEY has no parameter 'choices'; valid: none"):
        create("KEY", 3, choices=2)


HALVED = ("PARTIAL_KEY", "ON_GREEDY", "PORC", "D_CHOICES", "W_CHOICES")
LIGHT = ([1, 2], [1, 2, None], [1, 2, 0], [1, 2, math.inf], [1.0, 1.0, math.nan], [[1, 2, 3]], [1e308] * 3)
NO_VALUES = ("text", "", b"text", [1, "a"], {"a": 1}, {1, 2, 3}, np.array(["a", "b"]), 1 + 2j, math.nan, object)


@pytest.mark.parametrize("name", GROUPINGS)
def test_parameters_of_a_wrong_type(name, subtests):
    for parameter in ("workers", "seed", *get_parameters(name)):
        annotation = inspect.signature(GROUPINGS[name]).parameters[parameter].annotation
        types = get_args(annotation) or (annotation,)
        wrong = [*NO_VALUES, *([1.5] * (float not in types)), *([True] * (bool not in types))]
        wrong += [2**70] * (int in types and parameter != "seed")
        wrong += [None] * (NoneType not in types)
        wrong += [0, -1] * (parameter == "workers")
        with subtests.test(parameter):
            for value in wrong:
                with pytest.raises(UsageError, match=rf"^{parameter} is {re.escape(repr(value))}; valid: "):
                    create(name, **{"workers": 3, parameter: value})


#: Scheme → options, and what is said of the last one. ``weights`` are those of three workers.
OUT_OF_RANGE = {
    "BOUNDED_LOAD": [
        ({"slack": 0}, "a number above 0, at most 10"),
        *(({option: 0}, "an integer of at least 1") for option in ("window", "sources", "most_workers")),
        ({"balance": "time"}, "tuples, cost"),
    ],
    "PLANNED": [
        *(({option: 0}, "an integer of at least 1") for option in ("most_workers", "remember")),
        ({"slack": -1}, "a number of at least 0"),
        ({"threshold": 2}, "a number of at least 0, at most 1"),
        ({"balance": "time"}, "tuples, cost"),
    ],
    "PARTIAL_KEY": [
        *(({"choices": choices}, "an integer of at least 2") for choices in (1, 0, -2)),
        ({"estimation": "none"}, "local, global"),
        ({"probe_every": -1}, "an integer of at least 0"),
    ],
    "W_CHOICES": (heavy := [({"threshold": bad}, "a number of at least 0.01, at most 10") for bad in (0, -1, 11)]),
    "D_CHOICES": [*heavy, ({"tolerance": 0}, "a number above 0, at most 1")],
    "HOLISTIC": [
        ({"threshold": 0}, "a number of at least 1e-07, at most 1"),
        ({"tolerance": -0.1}, "a number of at least 0"),
    ],
    "PORC": [({"tolerance": 0}, "a number of at least 0.001"), ({"virtual": 0}, "an integer of at least 1")],
    "DALTON": [
        ({"slide": 0}, "an integer of at least 1"),
        ({"window": 9999}, "an integer of at least 10000"),
        ({"explore": 1.1}, "a number of at least 0, at most 1"),
        ({"splits": 1}, "an integer of at least 2"),
    ],
    **{name: [({"max_keys": 0}, "an integer of at least 1")] for name in ("POTC", "ON_GREEDY", "OFF_GREEDY")},
    "DYNAMIC_KEY": [
        *(({option: 0}, "an integer of at least 1") for option in ("distinct_keys", "periods_to_old")),
        ({"warm_up": -1}, "a duration of at least 0 s"),
        *(({"promotion_period": bad}, "a duration of at least 0.001 s") for bad in (0, "15 months")),
        ({"evict_after": math.inf}, "a duration of at least 0 s"),
    ],
    "DYNAMIC_KEY_DECAY": [({"half_life": 0}, "a duration of at least 0.001 s")],
    "CONSISTENT_HASH": [
        ({"method": "tripling"}, "halving, doubling"),
        ({"tokens": 3}, "a power of 2"),
        ({"threshold": -0.1}, "a number of at least 0"),
        ({"rounds": -1}, "an integer of at least 0"),
        ({"tokens": 64, "max_tokens": 100}, "an integer of at least 192"),
    ],
    "POSG": [
        ({"window": 0}, "an integer of at least 1"),
        ({"tolerance": -1}, "a number of at least 0"),
        ({"settle": "never"}, "work, clock"),
        *(({option: bad}, "a number ") for option, bad in (("epsilon", 0), ("delta", 0), ("delta", 1))),
    ],
    "MIXED": [
        ({"theta_max": -0.1}, "a number of at least 0"),
        ({"window": 0}, "an integer of at least 1"),
        ({"degree": 3}, "a power of 2"),
        ({"degree": 0}, ""),
        ({"table_max": -1}, "an integer of at least 0"),
        ({"beta": 0}, "a number above 0"),
    ],
}


def test_parameters_out_of_range(subtests):
    halved = [(name, {"half_life": bad}, "an integer of at least 1") for name in HALVED for bad in (0, -1)]
    weighted = [
        (name, {"weights": bad}, "a number above 0 for each of 3 workers") for name in WEIGHTED for bad in LIGHT
    ]
    others = [(name, *each) for name, all_of_it in OUT_OF_RANGE.items() for each in all_of_it]
    for name, options, valid in (*others, *halved, *weighted):
        option, value = list(options.items())[-1]
        with (
            subtests.test(f"{name}: {option}={value}"),
            pytest.raises(UsageError, match=rf"^{option} is {re.escape(repr(value))}; valid: {re.escape(valid)}"),
        ):
            create(name, 3, **options)


def test_parameters_that_exclude_each_other():
    for options in ({"estimation": "global", "probe_every": 5}, {"half_life": 5, "probe_every": 10}):
        (one, value), (other, _) = options.items()
        with pytest.raises(UsageError, match=rf"{one} is {value}|{other} is 5 with {one}"):
            create("PARTIAL_KEY", 3, **options)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_in_any_sequence(name):
    for weights in ((1, 2, 3), np.array([1, 2, 3]), pd.Series([1.0, 2.0, 3.0])):
        assert create(name, 3, weights=weights).identity == create(name, 3, weights=[1.0, 2.0, 3.0]).identity


FILES = sorted(Path(grouping.__file__).parent.rglob("*.py"))
SOURCES_OF_CHANCE = {"random", "secrets", "uuid", "datetime", "time"}
#: It measures how long routing takes.
MEASURES = ("simulator/sources.py", "grouping/feedback_loop.py")


def test_no_clock_and_no_unseeded_draw(subtests):
    for file in FILES:
        with subtests.test(file.name):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                imported = set()
                if isinstance(node, ast.Import):
                    imported = {name.name.partition(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom):
                    imported = {(node.module or "").partition(".")[0]}
                elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
                    assert node.args, f"line {node.lineno}: a generator without a seed"
                assert file.as_posix().endswith(MEASURES) or not imported & SOURCES_OF_CHANCE
