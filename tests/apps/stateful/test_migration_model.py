"""The model of migration: no order of crash and replay breaks it, and it finds planted mistakes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.apps.stateful import migration_model
from tests.apps.stateful.migration_model import AskedModel, MigrationModel, forgets, moves, partly, play_whole, rescales
from unskew.apps.checkpoint import folders
from unskew.apps.driver.plans import feedback_loop as feedback
from unskew.apps.worker.stateful import store
from unskew.apps.worker.stateful.migration import Migration, StateTransfers
from unskew.apps.worker.stateful.table import StateTable
from unskew.grouping import feedback_loop
from unskew.grouping.table.router import TableRouter


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    """Buckets of a few keys, so that they split and merge."""
    monkeypatch.setattr(store, "KEYS", 2)
    monkeypatch.setattr(store, "_SHRINK", 2)
    monkeypatch.setattr(folders, "PATIENCE", 0.0)


@pytest.mark.parametrize("model", [MigrationModel, AskedModel])
def test_whatever_dies_and_whenever(model):
    # Fewer with `make test-fast`, by its profile.
    examples = 3 * settings.default.max_examples
    run_state_machine_as_test(
        model, settings=settings(max_examples=examples, stateful_step_count=40, suppress_health_check=list(HealthCheck))
    )


NAMED, FORGET, RESCALED = feedback_loop._apply_releases, StateTransfers.forget, feedback_loop.rescale_plan

TABLES, KEY = (MigrationModel, "MIXED"), (MigrationModel, "KEY")
ASKED = (AskedModel, "MIXED")  # where reports are lost

#: A mistake: what is played, and what would be wrong.
MISTAKES = {
    "nothing is released": (*TABLES, moves, TableRouter, "moving_keys", lambda *_: np.empty(0, np.uint64)),
    "nothing is taken in": (*TABLES, moves, StateTransfers, "to", lambda *_: []),
    "rows stay": (*TABLES, moves, StateTable, "release", lambda self, to, among: iter(())),
    "files go too early": (*TABLES, moves, StateTransfers, "forget", lambda self, taken: FORGET(self, [99])),
    "nothing is taken back": (*TABLES, partly, StateTransfers, "by", lambda *_: []),
    "files aren't named": (
        *(*TABLES, moves, feedback_loop, "_apply_releases"),
        lambda *of: replace(NAMED(*of), files={}),
    ),
    "W isn't recorded": (*KEY, rescales, migration_model, "record_workers", lambda *_: None),
    "W changes at once": (
        *(*KEY, rescales, feedback_loop, "rescale_plan"),
        lambda *of, waits: RESCALED(*of, waits=False),
    ),
    "only the driver knows a worker's file": (
        *(*ASKED, forgets, Migration, "_own_file"),
        lambda self: self._plans.pending_files.get(self._worker, -1),
    ),
    "lost reports go unnoticed": (*ASKED, forgets, feedback, "replace", lambda before, **_: before),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, monkeypatch):
    *played, where, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(where, name, wrong)
    # An assertion of the model's or a fault of the engine's: not a name that a change of this test has missed.
    with pytest.raises(Exception, check=lambda error: not isinstance(error, (AttributeError, NameError))):  # noqa: B017
        play_whole(*played)


#: What is played without a mistake: nothing is passed on, as DPA's load balancer must. What is routed by a plan is
#: executed by it, in its batch, as the model asserts of each.
PLAYED = [(*TABLES, moves), (MigrationModel, "CONSISTENT_HASH", moves), (*TABLES, partly), (*KEY, rescales)]
PLAYED += [(*ASKED, play) for play in (moves, partly, forgets)]


@pytest.mark.parametrize(("model", "grouping", "play"), PLAYED)
def test_without_one_nothing_is(model, grouping, play):
    play_whole(model, grouping, play)
