"""examples/keyed_operators.py publishes the true results of its stream, work by work."""

import math
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from examples.keyed_operators import BATCHES, WORKS, classes, clicks, last, run
from tests.apps.stateful.in_time import in_time
from tests.sessions import sessions as sessions_of
from tests.tiers import nightly_but

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = pa.concat_tables(clicks()).to_pylist()
BY_USER = defaultdict(list)
for click in ROWS:
    click["ms"] = round(click["at"].timestamp() * 1000)
    BY_USER[click["user"]].append(click)


def running(rows):
    assert {row["user"]: (row["count"], row["sum"]) for row in rows} == {
        user: (len(mine), math.fsum(each["seconds"] for each in mine)) for user, mine in BY_USER.items()
    }


def distinct(rows):
    assert Counter((row["user"], row["id"]) for row in rows) == Counter({(r["user"], r["click"]) for r in ROWS})


def distinct_count(rows):
    for row in rows:
        true = len({each["page"] for each in BY_USER[row["user"]]})
        assert abs(row["count"] - true) <= max(1, 0.12 * true)
    assert len(rows) == len(BY_USER)


def sessions(rows):
    """All of the first batch are over when the last one comes; of the others some."""
    expected = set(sessions_of(((each["user"], each["ms"]) for each in ROWS), 2000))
    found = [(row["user"], row["start"], row["last"], row["count"]) for row in rows]
    assert len(found) == len(set(found))
    assert set(found) <= expected
    assert len(found) > len(expected) / (BATCHES + 1)


def top_k(rows):
    for row in rows:
        true = sum(each["page"] == row["item"] for each in BY_USER[row["user"]])
        assert row["count"] <= true <= row["count"] + row["error"]
    assert len(rows) == sum(min(3, len({each["page"] for each in mine})) for mine in BY_USER.values())


def quantiles(rows):
    for row in rows:
        values = sorted(each["seconds"] for each in BY_USER[row["user"]])
        true = values[math.ceil(row["quantile"] * len(values)) - 1]
        assert abs(row["value"] - true) <= 0.01 * true
    assert len(rows) == 3 * len(BY_USER)


def kll_quantiles(rows):
    for row in rows:
        values = sorted(each["seconds"] for each in BY_USER[row["user"]])
        rank = np.searchsorted(values, row["value"], side="right") / len(values)
        assert abs(rank - row["quantile"]) <= 4 * 0.0133 + 1 / len(values)
    assert len(rows) == 3 * len(BY_USER)


def histogram(rows):
    for row in rows:
        values = [each["seconds"] for each in BY_USER[row["user"]]]
        assert (row["count"], row["min"], row["max"]) == (len(values), min(values), max(values))
        assert sum(each["count"] for each in row["bins"]) == len(values)
    assert len(rows) == len(BY_USER)


def latest(rows):
    true = {user: max(mine, key=lambda each: (each["ms"], each["click"]))["page"] for user, mine in BY_USER.items()}
    assert {row["user"]: row["value"] for row in rows} == true


def enriched(rows):
    """As of the click, of the changes of all batches so far."""
    true = {}
    for user, mine in BY_USER.items():
        changes = sorted((each["ms"], each["plan"]) for each in mine if each["plan"])
        for each in mine:
            if not each["plan"]:
                before = [plan for ms, plan in changes if ms <= each["ms"]]
                true[user, str(each["click"])] = before[-1] if before else None
    assert {(row["user"], row["id"]): row["value"] for row in rows} == true


def interval_join(rows):
    """Each two clicks of a user within 200 ms."""
    true = {
        (user, a["click"], b["click"], b["page"])
        for user, mine in BY_USER.items()
        for a, b in product(mine, mine)
        if 0 <= b["ms"] - a["ms"] <= 200 and (a["ms"] < b["ms"] or a["click"] < b["click"])
    }
    assert {(row["user"], row["left_id"], row["right_id"], row["right_page"]) for row in rows} == true


def naive_bayes(rows):
    assert classes(rows) == {"5": "ham", "6": "spam", "7": "ham"}


CHECKS = {
    "Statistics": running,
    "Distinct": distinct,
    "DistinctCount": distinct_count,
    "Sessions": sessions,
    "TopK": top_k,
    "Quantiles": quantiles,
    "KllQuantiles": kll_quantiles,
    "Histogram": histogram,
    "Latest": latest,
    "Enriched": enriched,
    "IntervalJoin": interval_join,
    "NaiveBayes": naive_bayes,
}


@pytest.mark.parametrize("name", nightly_but(["Statistics"], WORKS, "keyed"))
def test_a_work(spark, tmp_path, name):
    rows = in_time(lambda attempt: run(spark, name, tmp_path / str(attempt)))
    CHECKS[name](rows if name in ("Distinct", "Sessions") else last(name, rows))
