"""The folders of a checkpoint, on each kind of store."""

import pyarrow as pa
import pytest

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Location
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.operator_output import WINDOW
from unskew.apps.worker.stateful.store import KEY
from unskew.errors import EnvironmentFault

pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.xdist_group("cluster")]  # four servers are started
OF_CLOUDS = [pytest.param(store, marks=pytest.mark.programs) for store in ("gs", "azure")]


@pytest.fixture(params=["local", "s3", "hdfs", *OF_CLOUDS])
def location(request, tmp_path) -> Location:
    if request.param == "local":
        return Location(str(tmp_path / "checkpoint"))
    return request.getfixturevalue(request.param).location(tmp_path.name)


def test_what_is_written_is_read_and_listed(location):
    folder = location.folder("a", "b")
    assert folder.names() == []
    with pytest.raises(FileNotFoundError):
        folder.read("one")
    folder.write("one", b"1")
    folder.write("one", b"another")
    folder.write("empty", b"")
    assert sorted(folder.names()) == ["empty", "one"], "nothing unfinished is left"
    assert not folder.create("one", b"a third")
    assert folder.create("two", b"2")
    assert not folder.create("two", b"two")
    assert folder.read("one") == b"another"
    assert folder.read("two") == b"2"
    folder.remove("two")
    folder.remove("two")
    assert folder.read("empty") == b""
    assert location.folder("a").names() == ["b"]
    with folder.open("one") as file:
        file.seek(2)
        assert file.read(3) == b"oth"
    for _ in range(2):
        folder.clear()
        assert folder.names() == []


def test_versions(location):
    versions = Versions(location.below("versions"))
    assert versions.newest(3) is None
    for number in range(1, 60, 2):
        versions.write(number, b"%d" % number)
        assert versions.newest(number) == (number, b"%d" % number)
        assert versions.newest(number - 1) == ((number - 2, b"%d" % (number - 2)) if number > 1 else None)
    # Where requests cost money, the old ones go from time to time.
    assert len(location.folder("versions").names()) < 25


def test_states_on_their_way(location):
    rows = pa.record_batch({WINDOW: pa.array([0, 0]), KEY: ["a", "b"]})
    transfers = StateTransfers(location)
    transfers.write(1, 7, 4, {2: rows, 3: rows.slice(0, 1)}, rows.schema)
    assert transfers.plans() == [7]
    assert transfers.to(3, 7, {1: 4})[0].num_rows == 1
    assert sum(part.num_rows for part in transfers.by(1, 7, 4)) == 3
    transfers.forget([7])
    assert transfers.plans() == []


def test_a_checkpoint_is_claimed_once_and_for_all(location):
    assert Checkpoint(location).read_record() == {}
    Checkpoint(location).claim({"numWorkers": 4})
    assert Checkpoint(location).read_record()["numWorkers"] == 4
    Checkpoint(location).clock.set_ahead(3, 250)
    assert Checkpoint(location).clock.ahead_ms == 250


def test_a_store_that_refuses_is_told_in_a_line(s3):
    location = s3.location("refused")
    wrong = Location(location.address, {**location.access, "fs.s3a.secret.key": "wrong-s3cret"})
    with pytest.raises(EnvironmentFault, match=r"s3a://bucket/refused/unskew can't be (read|written)") as error:
        Checkpoint(wrong).claim({})
    assert "\n" not in str(error.value)
    assert "s3cret" not in str(error.value)
    with pytest.raises(EnvironmentFault, match=r"s3a://no-such-bucket/x/unskew can't be written"):
        Checkpoint(Location("s3a://no-such-bucket/x", location.access)).claim({})
