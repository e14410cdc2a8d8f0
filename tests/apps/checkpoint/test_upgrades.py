"""Checkpoints of other versions: refused, or resumed as far as they can be read."""

import logging
from dataclasses import replace

import numpy as np
import orjson
import pytest

from tests.apps.local_settings import settings
from unskew.apps.checkpoint.checkpoint import FORMAT, Checkpoint
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.checkpoint.versions import Totals, TotalsLog, Versions
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.preconditions import require_plans
from unskew.apps.router.router import Routing, SourceRouter
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping import create
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import PlanState
from unskew.operators import Statistics


def test_a_state_that_cannot_be_read_is_a_cold_start(tmp_path, caplog):
    routing = Routing("SHUFFLE", 3, str(tmp_path))
    Versions(str(tmp_path / "unskew" / "sources" / "0")).write(5, b"of another version")
    with caplog.at_level(logging.WARNING):
        router = SourceRouter(routing, 0, 5)
    assert "source 0 can't read its router state (not a saved state" in caplog.text
    assert router.route(["x"] * 3, None).tolist() == SourceRouter(routing, 0, 0).route(["x"] * 3, None).tolist()


def of_another_version(checkpoint):
    """A plan for routers that there are no more."""
    plan = Plan(2, 1, "MIXED as it was", {"table_keys": np.empty(0, np.uint64)})
    PlanStateLog(str(checkpoint)).write(5, PlanState(3, active=plan))


def test_a_plan_of_another_version_is_not_gone_by(tmp_path, caplog):
    of_another_version(tmp_path)
    with caplog.at_level(logging.WARNING):
        router = SourceRouter(Routing("MIXED", 3, str(tmp_path), plans=PlanStateLog(str(tmp_path)).at), 0, 5)
    assert "source 0 goes without a plan until there is a new one: plan 2 is for (MIXED as it was)" in caplog.text
    assert router.route(["x"] * 3, None).tolist() == create("KEY", 3).route(["x"] * 3).tolist()


def test_states_that_lie_by_a_plan_of_another_version(tmp_path):
    of_another_version(tmp_path)
    run = settings(grouping="MIXED", workers=3, checkpoint=str(tmp_path))
    require_plans(Dataflow.of(run))
    with pytest.raises(EnvironmentFault, match=r"lie as a plan for \(MIXED as it was\) has it, this version has"):
        require_plans(Dataflow.of(replace(run, work=Statistics("offset"))))


def test_options_that_only_one_version_has(tmp_path):
    Checkpoint(str(tmp_path)).claim({"numWorkers": 4, "old": 1})
    Checkpoint(str(tmp_path)).claim({"numWorkers": 4, "new": 2})
    with pytest.raises(UsageError, match="new 2, this one has 3"):
        Checkpoint(str(tmp_path)).claim({"numWorkers": 4, "new": 3})
    with pytest.raises(UsageError, match="old 1, this one has 2"):
        Checkpoint(str(tmp_path)).claim({"numWorkers": 4, "old": 2})


def test_another_format_is_refused(tmp_path):
    Checkpoint(str(tmp_path)).claim({})
    file = tmp_path / "unskew" / "run.json"
    assert orjson.loads(file.read_bytes()) == {"format": FORMAT}
    for record in ({"format": FORMAT + 1}, {"format": FORMAT - 1}, {"sourceName": "t"}):
        file.write_bytes(orjson.dumps(record))
        with pytest.raises(UsageError, match=f"has format {record.get('format')}; valid: {FORMAT}: use the version"):
            Checkpoint(str(tmp_path)).claim({})
    file.write_bytes(b"{")
    with pytest.raises(EnvironmentFault, match="can't be read"):
        Checkpoint(str(tmp_path)).claim({})


def of_column(where, field=None, form=None):
    """What a checkpoint records of a run of COLUMN."""
    return settings(source_type="COLUMN", checkpoint=str(where), key_field=field, format=form).identity


def test_another_key_field_than_the_default_is_refused(tmp_path):
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.claim(of_column(tmp_path))
    with pytest.raises(UsageError, match=r"keyField 'key', this one has 'user\.id'"):
        checkpoint.claim(of_column(tmp_path, "user.id"))
    with pytest.raises(UsageError, match="messageFormat 'json', this one has 'avro'"):
        checkpoint.claim(of_column(tmp_path, "key", "avro"))
    checkpoint.claim(of_column(tmp_path, "key", "json"))
    checkpoint.claim(of_column(tmp_path))


def test_a_batch_that_runs_again_counts_on_from_the_totals_of_the_one_before(tmp_path):
    """Not from its own, which its first run has written for the batch after it."""
    log = TotalsLog(str(tmp_path))
    log.write(3, Totals(routed=7))
    log.write(4, Totals(routed=9))
    assert [log.at(batch).routed for batch in (3, 4, 5)] == [7, 9, 9]


def test_what_is_cut_off_while_it_is_written_is_not_there(tmp_path, monkeypatch):
    checkpoint = Checkpoint(str(tmp_path))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(EnvironmentFault, match=r"can't be written .*No space"):
        checkpoint.claim({"numWorkers": 4})
    assert not (tmp_path / "unskew" / "run.json").exists()
    with pytest.raises(EnvironmentFault, match="No space"):
        Versions(str(tmp_path)).write(7, b"half")
    assert Versions(str(tmp_path)).newest(7) is None
