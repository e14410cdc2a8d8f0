import pytest

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.errors import EnvironmentFault, UsageError


def test_the_same_run_may_come_back(tmp_path):
    run = {"groupingType": "KEY", "numWorkers": 4, "groupingOptions": {"d": 2}}
    Checkpoint(str(tmp_path)).claim(run)
    Checkpoint(str(tmp_path)).claim(dict(run))


@pytest.mark.parametrize(("name", "value"), [("groupingType", "PARTIAL_KEY"), ("numWorkers", 5)])
def test_another_run_is_refused_by_name(tmp_path, name, value):
    run = {"groupingType": "KEY", "numWorkers": 4}
    Checkpoint(str(tmp_path)).claim(run)
    with pytest.raises(UsageError, match=f"{name} {run.get(name)!r}, this one has {value!r}"):
        Checkpoint(str(tmp_path)).claim(run | {name: value})


def test_a_location_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="can't be read"):
        Checkpoint(str(tmp_path / "file" / "checkpoint")).claim({})
    with pytest.raises(EnvironmentFault, match="can't be written"):
        Checkpoint("/proc/checkpoint").claim({})


def test_who_only_reads_writes_nothing(tmp_path):
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    assert checkpoint.claimed() == {}
    assert checkpoint.partitions() is None
    assert checkpoint.clock.ahead_ms == 0
    assert not (tmp_path / "checkpoint").exists()
