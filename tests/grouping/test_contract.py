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
from unskew.grouping import GROUPINGS, create, named, parameters
from unskew.grouping.registry import WEIGHTED

schemes = over(SCHEMES)


@schemes
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(name, options, check):
    if reason := SKIPPED.get((name, check.__name__)):
        pytest.skip(reason)
    check(lambda workers: create(name, workers, **options))


@schemes
def test_restored_in_another_process(name, options, elsewhere):
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
        assert named(name.lower()) is scheme


@pytest.mark.parametrize("name", GROUPINGS)
def test_docstring(name):
    """Each says what it guarantees, what it costs, where it comes from, and shows itself on a few keys."""
    text = GROUPINGS[name].__doc__ or ""
    for heading in ("Guarantees", "References", "Examples"):
        assert f"\n    {heading}\n    ---" in text
    assert re.search(r"\bTime O\(", text)
    assert re.search(r"[Mm]emory", text)
    for parameter in parameters(name):
        assert parameter in text


def test_unknown_names():
    with pytest.raises(ValueError, match=r"unknown grouping 'NONE'; valid: SHUFFLE, KEY"):
        create("NONE", 3)
    with pytest.raises(UsageError, match=r"unknown grouping 5; valid: SHUFFLE, KEY"):
        create(cast("Any", 5), 3)
    with pytest.raises(ValueError, match=r"KEY has no parameter 'choices'; valid: none"):
        create("KEY", 3, choices=2)


@pytest.mark.parametrize("workers", [0, -1, 2.5, "10", True, None])
@pytest.mark.parametrize("name", GROUPINGS)
def test_bad_workers(name, workers):
    with pytest.raises(ValueError, match=r"workers is .*; valid: an integer of at least 1"):
        create(name, workers)


NO_VALUES = ("text", "", b"text", [1, "a"], {"a": 1}, {1, 2, 3}, np.array(["a", "b"]), 1 + 2j, math.nan, object)
PARAMETERS = [(name, parameter) for name in GROUPINGS for parameter in ("workers", "seed", *parameters(name))]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS, ids="-".join)
def test_a_parameter_of_a_wrong_type(name, parameter):
    annotation = inspect.signature(GROUPINGS[name]).parameters[parameter].annotation
    types = get_args(annotation) or (annotation,)
    wrong = [*NO_VALUES, *([1.5] * (float not in types)), *([True] * (bool not in types))]
    wrong += [2**70] * (int in types and parameter != "seed")
    for value in wrong if NoneType in types else [*wrong, None]:
        with pytest.raises(UsageError, match=rf"^{parameter} is {re.escape(repr(value))}; valid: "):
            create(name, **{"workers": 3, parameter: value})


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("weights", [[1, 2], [1, 2, None], [1, 2, 0], [1, 2, math.inf], [[1, 2, 3]], [1e308] * 3])
def test_bad_weights(name, weights):
    says = f"weights is {weights}; valid: a number above 0 for each of 3 workers"
    with pytest.raises(UsageError, match=f"^{re.escape(says)}$"):
        create(name, 3, weights=weights)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_in_any_sequence(name):
    for weights in ((1, 2, 3), np.array([1, 2, 3]), pd.Series([1.0, 2.0, 3.0])):
        assert create(name, 3, weights=weights).identity == create(name, 3, weights=[1.0, 2.0, 3.0]).identity


FILES = sorted(Path(grouping.__file__).parent.rglob("*.py"))
SOURCES_OF_CHANCE = {"random", "secrets", "uuid", "datetime", "time"}
#: It measures how long routing takes.
MEASURES = ("simulator/sources.py", "grouping/loop.py")


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
