"""`unskew simulate --join`: what a join of two inputs gives the workers, beside a join in plain Python."""

import json
from collections import Counter

import numpy as np
import pytest

from tests.commands import unskew
from unskew.apps.cli.simulation.join_loads import (
    BalancedPlacement,
    JoinSimulation,
    pair_sides,
    place_by_hash,
    place_by_salt,
)
from unskew.apps.cli.simulation.join_report import advise_join
from unskew.grouping import create
from unskew.grouping.split_join.plan import PAIR_COST

WORKERS, SEED = 6, 3


def draw_sides(hot=0.4, of_right=0.01):
    """Left and right keys: a key that has a share of each side, and 200 others."""
    rng = np.random.default_rng(1)
    sides = []
    for rows, share in ((3000, hot), (700, of_right)):
        others = rng.integers(1, 200, rows)
        sides.append([f"k{key}" for key in np.where(rng.random(rows) < share, 0, others)])
    return sides


def write_side(path, keys):
    path.write_text("key\n" + "".join(f"{key}\n" for key in keys))
    return f"{path}:key"


@pytest.mark.parametrize("batch", [None, 1000, 999])
@pytest.mark.parametrize("way", ["KEY", "salt 6", "balanced_join", "balanced_join, cost"])
def test_the_figures_are_those_of_a_join_in_plain_python(way, batch):
    """Each worker joins the rows that it gets: every pair is found once, and the rows and pairs are its load."""
    left, right = draw_sides()
    sides = pair_sides(left, right)
    cost = 1 + PAIR_COST * sides.right.astype(np.float64)
    place = {
        "KEY": place_by_hash(WORKERS, SEED),
        "salt 6": place_by_salt(WORKERS, SEED),
        "balanced_join": BalancedPlacement(WORKERS, SEED),
        "balanced_join, cost": BalancedPlacement(WORKERS, SEED, cost),
    }[way]
    names, right_rows = sides.keys.texts(range(len(sides.right))), Counter(right)
    fullest, with_pairs, sent, batches = 0, 0, 0, 0
    for start in range(0, len(left), batch or len(left)):
        rows = left[start : start + (batch or len(left))]
        codes = sides.keys.codes[start : start + len(rows)]
        found, loads, pairs = Counter(), Counter(), Counter()
        keys = type(sides.keys)(codes, sides.keys.hashes, sides.keys.distinct)
        for cells in place(keys, np.bincount(codes, minlength=len(names))):
            for code, worker, own in zip(*(each.tolist() for each in cells), strict=True):
                copies = right_rows[names[code]]
                found[names[code]] += own * copies
                loads[worker] += own + copies
                pairs[worker] += own * copies
                sent += copies
        assert +found == +Counter({key: number * right_rows[key] for key, number in Counter(rows).items()})
        fullest += max(loads.values())
        with_pairs += max(loads[worker] + PAIR_COST * pairs[worker] for worker in loads)
        batches += 1
    rows = len(left) + batches * len(right)
    all_pairs = sum(number * right_rows[key] for key, number in Counter(left).items())
    figures = JoinSimulation(sides, WORKERS, batch, SEED).compute_figures()[way]
    assert figures.fullest == pytest.approx(fullest / (rows / WORKERS))
    assert figures.fullest_with_pairs == pytest.approx(with_pairs / ((rows + PAIR_COST * all_pairs) / WORKERS))
    assert figures.right_sent == sent / (batches * len(right))


def test_a_hash_join_and_balanced_join_follow_the_groupings():
    """KEY's homes, and as many copies as PLANNED makes replicas of keys that it splits."""
    left, right = draw_sides()
    sides = pair_sides(left, right)
    router, planner = (create(name, WORKERS, seed=SEED) for name in ("KEY", "PLANNED"))
    (cells,) = place_by_hash(WORKERS, SEED)(sides.keys, sides.left)
    assert dict(zip(sides.keys.texts(cells.key.tolist()), cells.worker.tolist(), strict=True)) == dict(
        zip(left + right, router.route(left + right).tolist(), strict=True)
    )
    replicas = {(key, worker) for key, worker in zip(left, planner.route(left).tolist(), strict=True) if key == "k0"}
    found = JoinSimulation(sides, WORKERS, None, SEED).compute_figures()
    assert len(replicas) > 1
    assert found["balanced_join"].right_sent == 1 + (len(replicas) - 1) * right.count("k0") / len(right)
    assert 1.6 * found["balanced_join"].fullest < found["KEY"].fullest
    assert found["salt 6"].right_sent == 6


def test_keys_of_two_types_meet_and_null_meets_nothing():
    sides = pair_sides(["1", "2", None, "1"], np.array([1, 1, 3]))
    assert {key.key: key[1:] for key in JoinSimulation(sides, 2, None, 0).find_hottest()} == {
        "1": (2, 2, 4),
        "2": (1, 0, 0),
        "3": (0, 1, 0),
    }


def test_a_file_joins_a_file(tmp_path):
    left, right = draw_sides()
    given = (write_side(tmp_path / "left.csv", left), "--join", write_side(tmp_path / "right.csv", right))
    result = unskew("simulate", *given, "--workers", "6,12")
    assert result.returncode == 0, result.stderr
    pairs = sum(number * right.count(key) for key, number in Counter(left).items())
    for count in (6, 12):
        assert f"3,000 rows join 700 rows: {pairs:,} pairs, W = {count}" in result.stdout
        assert f"salt {count}" in result.stdout
    assert "balanced_join spreads k0: its fullest worker has" in result.stdout
    shown = unskew("simulate", *given, "--workers", "6,12", "--json").stdout
    described = [json.loads(line) for line in shown.splitlines()]
    assert [(each["workers"], each["left"], each["right"], each["pairs"]) for each in described] == [
        (count, 3000, 700, pairs) for count in (6, 12)
    ]
    hot = left.count("k0"), right.count("k0")
    top = {"key": "k0", "left": hot[0], "right": hot[1], "pairs": hot[0] * hot[1]}
    assert described[0]["hottest"][0] == top
    assert len(described[0]["hottest"]) == 5
    ways = {each["way"]: each for each in described[0]["ways"]}
    assert list(ways) == ["KEY", "salt 6", "balanced_join", "balanced_join, cost"]
    assert ways["KEY"]["fullest"] > 2 > ways["balanced_join"]["fullest"]
    in_batches = json.loads(unskew("simulate", *given, "--workers", "6", "--batch", "1000", "--json").stdout)
    assert (in_batches["batches"], described[0]["batches"], in_batches["pairs"]) == (3, 1, pairs)


@pytest.mark.parametrize(
    ("hot", "of_right", "says"),
    [
        (0.0, 0.0, "No key is hot enough: the fullest worker of a hash join has 1."),
        (0.5, 0.0, "balanced_join spreads k0: its fullest worker has 1."),
        (0.2, 0.08, "balanced_join with cost = 1 + 0.02 * the key's right rows spreads k0"),
        (0.5, 0.5, "k0 is hot on both sides: "),
    ],
)
def test_the_advice_fits_the_sides(hot, of_right, says):
    simulation = JoinSimulation(pair_sides(*draw_sides(hot, of_right)), 12, None, SEED)
    assert advise_join(simulation, simulation.compute_figures()).startswith(says)


def test_a_hot_key_of_the_second_input_is_to_be_on_the_left():
    left, right = draw_sides(0.9, 0.0)
    simulation = JoinSimulation(pair_sides(sorted({*right, "k0"}), left), 12, None, SEED)
    assert advise_join(simulation, simulation.compute_figures()).startswith("k0 is hot in the second input; change")


def test_a_side_needs_keys(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("key\n")
    result = unskew("simulate", "zipf", "--join", f"{path}:key", "--tuples", "100")
    assert result.returncode == 2
    assert "has no tuples" in result.stderr
