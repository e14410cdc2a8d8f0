"""The model of migration: no order of crash and replay breaks it, and it finds planted mistakes."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.apps.stateful import migration_model
from tests.apps.stateful.migration_model import MOST, AskedModel, MigrationModel, forgets, moves, partly, rescales
from unskew.apps.checkpoint import folders
from unskew.apps.driver.plans import feedback_loop as feedback
from unskew.apps.worker.stateful import store
from unskew.apps.worker.stateful.migration import Migration, StateTransfers
from unskew.apps.worker.stateful.table import StateTable
from unskew.grouping import feedback_loop
from unskew.grouping.table.router import TableRouter


@pytest.fixture
def small_buckets(monkeypatch):
    """Buckets of a few keys, so that they split and merge."""
    monkeypatch.setattr(store, "KEYS", 2)
    monkeypatch.setattr(store, "_SHRINK", 2)
    monkeypatch.setattr(folders, "PATIENCE", 0.0)


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("model", [MigrationModel, AskedModel])
def test_whatever_dies_and_whenever(model):
    # Fewer with `make test-fast`, by its profile.
    examples = 3 * settings.default.max_examples
    run_state_machine_as_test(
        model,
        settings=settings(max_examples=examples, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


NAMED, FORGET, RESCALED = feedback_loop._apply_releases, StateTransfers.forget, feedback_loop.rescale_plan


MISTAKES = {
    "nothing is released": ("MIXED", moves, TableRouter, "moving_keys", lambda *_: np.empty(0, np.uint64)),
    "nothing is taken in": ("MIXED", moves, StateTransfers, "to", lambda *_: []),
    "rows stay": ("MIXED", moves, StateTable, "release", lambda self, to, among: iter(())),
    "files go too early": ("MIXED", moves, StateTransfers, "forget", lambda self, taken: FORGET(self, [99])),
    "nothing is taken back": ("MIXED", partly, StateTransfers, "by", lambda *_: []),
    "files aren't named": ("MIXED", moves, feedback_loop, "_apply_releases", lambda *of: replace(NAMED(*of), files={})),
    "W isn't recorded": ("KEY", rescales, migration_model, "record_workers", lambda *_: None),
    "W changes at once": (
        "KEY",
        rescales,
        feedback_loop,
        "rescale_plan",
        lambda *of, waits: RESCALED(*of, waits=False),
    ),
}


#: Mistakes where reports are lost.
ASKED_MISTAKES = {
    "only the driver knows a worker's file": (
        Migration,
        "_own_file",
        lambda self: self._plans.pending_files.get(self._worker, -1),
    ),
    "lost reports go unnoticed": (feedback, "replace", lambda before, **_: before),
}


@pytest.fixture
def run(monkeypatch, request):
    monkeypatch.setattr(store, "KEYS", 2)
    monkeypatch.setattr(folders, "PATIENCE", 0.0)
    machine = getattr(request, "param", MigrationModel)()
    yield machine
    shutil.rmtree(machine.folder, ignore_errors=True)


@pytest.mark.parametrize("run", [AskedModel], indirect=True)
@pytest.mark.parametrize("mistake", ASKED_MISTAKES)
def test_a_mistake_with_lost_reports_is_found(mistake, run, monkeypatch):
    monkeypatch.setattr(*ASKED_MISTAKES[mistake])
    found(run, forgets)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, run, monkeypatch):
    grouping, play, where, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(where, name, wrong)
    found(run, play, grouping)


def found(run, play, grouping="MIXED"):
    """Require that the model finds a mistake."""
    run.begin(grouping=grouping, workers=MOST, event=False, seed=1)

    def whole():
        play(run)
        run.teardown()

    # An assertion of the model's or a fault of the engine's: not a name that a change of this test has missed.
    with pytest.raises(Exception, check=lambda error: not isinstance(error, (AttributeError, NameError))):  # noqa: B017
        whole()


@pytest.mark.parametrize(("grouping", "play"), [("MIXED", moves), ("MIXED", partly), ("KEY", rescales)])
def test_without_one_nothing_is(grouping, play, run):
    run.begin(grouping=grouping, workers=MOST, event=False, seed=1)
    play(run)
    run.teardown()


@pytest.mark.parametrize("run", [AskedModel], indirect=True)
@pytest.mark.parametrize("play", [moves, partly, forgets])
def test_without_one_nothing_is_where_sources_ask(play, run):
    run.begin(grouping="MIXED", workers=MOST, event=False, seed=1)
    play(run)
    run.teardown()
