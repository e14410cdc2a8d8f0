"""Lists of a folder's files that lack the newest names for a while, as some file systems and stores have them."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.apps.stateful.migration_model import MigrationModel, moves, partly, play_whole, rescales
from unskew.apps.checkpoint import folders
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.folders import LocalFolder
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.checkpoint.versions import BatchClock, Totals, TotalsLog, Versions
from unskew.apps.router.router import Routing, SourceRouter
from unskew.apps.worker.stateful import store
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.operator_output import WINDOW
from unskew.apps.worker.stateful.store import KEY
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import PlanState

NAMES, WRITE = LocalFolder.names, LocalFolder.write


@pytest.fixture
def unlisted(monkeypatch):
    """Lists are as they were when this list of paths was last cleared: what is written since isn't in them."""
    new: list[Path] = []

    def names(folder):
        return [name for name in NAMES(folder) if not any((folder._path / name).is_relative_to(path) for path in new)]

    def write(folder, name, data):
        if not (folder._path / name).exists():
            new.append(folder._path / name)
        WRITE(folder, name, data)

    def create(folder, name, data):
        there = (folder._path / name).exists()
        if not there:
            folder.write(name, data)
        return not there

    monkeypatch.setattr(LocalFolder, "names", names)
    monkeypatch.setattr(LocalFolder, "write", write)
    monkeypatch.setattr(LocalFolder, "create", create, raising=False)
    return new


@pytest.mark.parametrize("fresh", [1, 3])
@pytest.mark.parametrize(("grouping", "play"), [("MIXED", moves), ("MIXED", partly), ("KEY", rescales)])
def test_no_state_on_its_way_is_lost(grouping, play, fresh, unlisted, monkeypatch):
    """Lists lack what was written in the batch under way and in the ones before."""
    monkeypatch.setattr(store, "KEYS", 2)
    plan, since = MigrationModel.plan, [0] * fresh

    def with_newer_lists(model, *of, **named):
        since.append(len(unlisted))
        known = since.pop(0)
        del unlisted[:known]
        since[:] = [number - known for number in since]
        plan(model, *of, **named)

    monkeypatch.setattr(MigrationModel, "plan", with_newer_lists)
    play_whole(MigrationModel, grouping, play)


def test_a_receiver_waits_for_a_file_that_is_named(tmp_path, monkeypatch):
    rows = pa.record_batch({WINDOW: pa.array([0, 0]), KEY: ["a", "b"]})
    transfers = StateTransfers(str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda _: transfers.write(1, 7, 4, {2: rows}, rows.schema))
    assert transfers.to(2, 7, {1: 4})[0].num_rows == 2
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(folders, "PATIENCE", 0.0)
    with pytest.raises(EnvironmentFault, match=r"worker 3 released in batch 4 are not in .*/unskew/moves/7/3-4: does"):
        transfers.to(2, 7, {1: 4, 3: 4})


def test_versions_are_found(tmp_path, unlisted, monkeypatch):
    versions = Versions(str(tmp_path))
    for version in (1, 2, 3):
        versions.write(version, b"%d" % version)
    unlisted.clear()
    for version in (4, 5, 9):
        versions.write(version, b"%d" % version)
    for at_most, found in ((3, 3), (4, 4), (6, 5), (8, 5), (9, 9), (70, 9)):
        assert versions.newest(at_most) == (found, b"%d" % found)
    assert set(NAMES(LocalFolder(str(tmp_path)))) >= {f"{version:012d}" for version in (5, 9)}
    # A list may also have what is gone: it isn't asked for that for ever.
    monkeypatch.setattr(LocalFolder, "names", lambda folder: [*NAMES(folder), "000000000080"])
    assert versions.newest(90) == (9, b"9")


def test_a_source_that_had_no_rows_for_a_batch_goes_on(tmp_path, unlisted):
    """Its router's state is of an earlier batch than the last one."""
    routing = Routing("SHUFFLE", 4, str(tmp_path))
    first = SourceRouter(routing, 0, 0)
    first.route(pa.array(["a"] * 3), None)
    first.close()
    assert SourceRouter(routing, 0, 3).route(pa.array(["a"]), None) == first.route(pa.array(["a"]), None)


def test_the_end_of_the_checkpoints_logs_is_found(tmp_path, unlisted):
    checkpoint, totals = Checkpoint(str(tmp_path)), TotalsLog(str(tmp_path))
    log = LocalFolder(str(tmp_path / "offsets"))
    for batch in range(5):
        log.write(str(batch), b"v1\n{}\n{}")
        totals.write(batch + 1, Totals(routed=batch))
        if batch == 2:
            unlisted.clear()
    BatchClock(str(tmp_path)).set_ahead(3, 250)
    PlanStateLog(str(tmp_path)).write(5, PlanState(3))
    assert checkpoint.newest_batch() == 4
    assert totals.newest(4).routed == 4
    assert checkpoint.clock.ahead_ms == 250
    assert PlanStateLog(str(tmp_path)).newest() == PlanState(3)
