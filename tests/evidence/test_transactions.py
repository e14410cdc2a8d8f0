"""The campaign of faults against the protocol of transactions: its plan, its check, and small campaigns of it."""

import itertools
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from evidence.faults.transactions.check import judge
from evidence.faults.transactions.plan import GAP, KINDS, OF_BROKERS, ROLES, STEPS_OF, plan
from evidence.faults.transactions.protocol import STEPS

_FAULTS = 24
_SIZE = 5  # records of a batch


def test_a_plan_is_drawn_from_its_seed_alone_and_a_longer_one_begins_alike():
    assert plan(1, 300) == plan(1, 300)
    assert plan(1, 300)[:100] == plan(1, 100)
    assert plan(1, 100) != plan(2, 100)


def test_each_step_of_each_process_and_each_kind_comes_equally_often():
    rounds = plan(3, 1000)
    steps = [(kind, role, step) for kind in ("kill", "stop") for role in ROLES for step in STEPS_OF[role]]
    found = Counter((each.kind, each.role, each.step) for each in rounds if each.step)
    assert found.keys() == {*steps}
    assert max(found.values()) - min(found.values()) <= 1
    assert {each.kind for each in rounds} == {*KINDS}
    assert {step for step in STEPS if step != GAP} == {each.step for each in rounds if each.step}


def test_kinds_can_be_left_out_and_a_gap_is_a_step_of_mutants_alone():
    kinds = frozenset({"kill", *OF_BROKERS})
    assert {each.kind for each in plan(4, 500, kinds)} == {*KINDS} - kinds
    assert plan(4, 500, frozenset(KINDS)) == []
    assert not any(each.step == GAP for each in plan(4, 500))
    assert {each.role for each in plan(4, 500, gap=True) if each.step == GAP} == {*ROLES}


def seen(*batches):
    """How often each record of a part was seen: its batches, and one that may not have been written."""
    return np.array(batches, np.uint8).ravel()


ONCE, NEVER = [1] * _SIZE, [0] * _SIZE


@pytest.mark.parametrize(
    ("counts", "lost", "doubled"),
    [
        (seen(ONCE, ONCE, NEVER), 0, 0),
        (seen(ONCE, ONCE, ONCE), 0, 0),
        (seen(NEVER), 0, 0),
        (seen(ONCE, NEVER, NEVER), _SIZE, 0),
        (seen([1, 1, 0, 1, 1], ONCE, NEVER), 1, 0),
        (seen(ONCE, [1, 1, 0, 0, 1]), 2, 0),
        (seen(ONCE, [2] * _SIZE, NEVER), 0, _SIZE),
        (seen(ONCE, [1, 3, 1, 0, 2], NEVER), 1, 3),
    ],
    ids=["right", "the next one too", "none", "lost", "one lost", "half of the next", "twice", "all at once"],
)
def test_what_is_lost_and_doubled_is_counted(counts, lost, doubled):
    verdict = judge([seen(ONCE, NEVER), counts], _SIZE)
    assert (verdict.lost, verdict.doubled) == (lost, doubled)
    assert verdict.records == _SIZE + counts.sum()
    assert verdict.exact == (not lost and not doubled)


def test_an_open_transaction_is_wrong_by_itself():
    assert not judge([seen(ONCE, NEVER)], _SIZE, ("records 0",)).exact


def campaign(folder, *more):
    """A small campaign's exit code, and the rows of its tables."""
    command = [sys.executable, "-m", "evidence.faults.transactions", "--parts", "2", "--records", "200"]
    done = subprocess.run(
        [*command, "--output", folder / "campaign", *more], capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    rows = re.findall(r"^\| (.+?) +\| +([\d,.]*) \|$", done.stdout, re.MULTILINE)
    numbers = {what: number.replace(",", "") for what, number in rows}
    return done.returncode, {what: int(number) for what, number in numbers.items() if number.isdigit()}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.takes(60)
def test_nothing_is_lost_doubled_or_left_open(tmp_path):
    # One in which the second broker's leaders and coordinators move.
    seed = next(seed for seed in itertools.count() if "second" in {each.kind for each in plan(seed, _FAULTS)})
    code, rows = campaign(tmp_path, "--seed", str(seed), "--faults", str(_FAULTS))
    assert code == 0
    assert rows["faults"] == _FAULTS
    assert rows["batches"] >= _FAULTS
    assert rows["… lost"] == rows["… doubled"] == rows["partitions with an open transaction"] == 0


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.nightly(group="evidence")
@pytest.mark.takes(60)
@pytest.mark.parametrize(
    ("mutant", "without"),
    [
        ("NumberOutside", ()),
        ("NoFence", ("kill", "kill-any")),  # a killed process would leave its transaction open, which shows it, too
    ],
)
def test_a_protocol_that_is_wrong_is_found(tmp_path, mutant, without):
    code, rows = campaign(tmp_path, "--seed", "1", "--mutant", mutant, "--without", *OF_BROKERS, *without)
    assert code == 1
    assert rows["… doubled"] > 0
