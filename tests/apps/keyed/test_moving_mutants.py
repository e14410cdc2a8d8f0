"""The model of moving states finds planted mistakes, or its silence would prove nothing."""

import shutil

import numpy as np
import pytest

from tests.apps.keyed import protocol
from tests.apps.keyed.protocol import MOST, Protocol
from unskew.apps.feedback import loop, rescaling
from unskew.apps.keyed import buckets
from unskew.apps.keyed.handed import Handed
from unskew.apps.keyed.table import Table
from unskew.grouping.table.router import TableRouter

ALL, NOBODY = range(MOST), set()
NEWEST, FORGET, RESCALED = Handed._newest, Handed.forget, rescaling.rescaled


def moves(run):
    """A plan in every batch, each batch replayed after a driver that died late."""
    for _ in range(6):
        run.plan(tuples=[(key, 0) for key in range(12)], pause=1, called="all")
        run.dies_after_the_standing_is_written(ALL)
        run.completes(order=ALL, twice=set(ALL))


def partly(run):
    """Some workers are called, so that a plan pends on."""
    moves(run)
    for i in range(8):
        run.plan(tuples=[(i, 0), ((i + 5) % 12, 0)], pause=1, called="some")
        run.completes(order=ALL, twice=set(ALL))


def rescales(run):
    """4 workers, 2, then 3."""
    for workers in (None, 2, None, 3, None):
        if workers:
            run.starts_again_with(workers)
        for _ in range(2):
            run.plan(tuples=[(key, 0) for key in range(12)], pause=1, called="all")
            run.completes(order=ALL, twice=NOBODY)


MISTAKES = {
    "nothing is handed out": ("MIXED", moves, TableRouter, "moving", lambda *_: np.empty(0, np.uint64)),
    "nothing is taken in": ("MIXED", moves, Handed, "to", lambda *_: []),
    "rows stay": ("MIXED", moves, Table, "hand_out", lambda self, to, among: iter(())),
    "files go too early": ("MIXED", moves, Handed, "forget", lambda self, taken: FORGET(self, [99])),
    "nothing is taken back": ("MIXED", partly, Handed, "back", lambda *_: None),
    "a task reads its own file": ("MIXED", partly, Handed, "_newest", lambda self, p, b: NEWEST(self, p, b + 1)),
    "W isn't noted": ("KEY", rescales, protocol, "begun_with", lambda *_: None),
    "W changes at once": ("KEY", rescales, loop, "rescaled", lambda *of, waits: RESCALED(*of, waits=False)),
}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(buckets, "KEYS", 2)
    machine = Protocol()
    yield machine
    shutil.rmtree(machine.folder, ignore_errors=True)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, run, monkeypatch):
    grouping, play, where, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(where, name, wrong)
    run.begin(grouping=grouping, workers=MOST, event=False, seed=1)

    def whole():
        play(run)
        run.teardown()

    with pytest.raises(Exception):  # noqa: B017  an assertion of the model's, or a fault of the engine's
        whole()


@pytest.mark.parametrize(("grouping", "play"), [("MIXED", moves), ("MIXED", partly), ("KEY", rescales)])
def test_without_one_nothing_is(grouping, play, run):
    run.begin(grouping=grouping, workers=MOST, event=False, seed=1)
    play(run)
    run.teardown()
