"""What a checkpoint asks of any store, of each kind that there is."""

import pyarrow as pa
import pytest

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.place import Place
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.keyed.bins import KEY
from unskew.apps.keyed.handed import Handed
from unskew.apps.keyed.parcels import WINDOW
from unskew.errors import EnvironmentFault

pytestmark = pytest.mark.slow  # two servers are started


@pytest.fixture(params=["local", "s3", "hdfs"])
def place(request, tmp_path) -> Place:
    if request.param == "local":
        return Place(str(tmp_path / "checkpoint"))
    return request.getfixturevalue(request.param).place(tmp_path.name)


def test_what_is_written_is_read_and_listed(place):
    folder = place.folder("a", "b")
    assert folder.names() == []
    with pytest.raises(FileNotFoundError):
        folder.read("one")
    folder.write("one", b"1")
    folder.write("one", b"another")
    folder.write("empty", b"")
    assert sorted(folder.names()) == ["empty", "one"]
    assert folder.read("one") == b"another"
    assert folder.read("empty") == b""
    assert place.folder("a").names() == ["b"]
    with folder.open("one") as file:
        file.seek(2)
        assert file.read(3) == b"oth"


def test_what_is_removed_is_gone(place):
    folder = place.folder("a")
    folder.write("one", b"1")
    folder.write("two", b"2")
    folder.remove("one")
    folder.remove("one")
    assert folder.names() == ["two"]
    folder.clear()
    folder.clear()
    assert folder.names() == []


def test_versions(place):
    versions = Versions(place.below("versions"))
    assert versions.newest(3) is None
    for number in range(1, 60, 2):
        versions.write(number, b"%d" % number)
        assert versions.newest(number) == (number, b"%d" % number)
        assert versions.newest(number - 1) == ((number - 2, b"%d" % (number - 2)) if number > 1 else None)
    # Where requests cost money, the old ones go from time to time.
    assert len(place.folder("versions").names()) < 25


def test_rows_handed_over(place):
    rows = pa.record_batch({WINDOW: pa.array([0, 0]), KEY: ["a", "b"]})
    handed = Handed(place)
    handed.hand(1, 7, 4, {2: rows, 3: rows.slice(0, 1)}, rows.schema)
    assert handed.plans() == [7]
    assert handed.to(3, 7, 5)[0].num_rows == 1
    assert sum(part.num_rows for part in handed.back(1, 7, 5)) == 3
    handed.forget([7])
    assert handed.plans() == []


def test_a_checkpoint_is_claimed_once_and_for_all(place):
    assert Checkpoint(place).claimed() == {}
    Checkpoint(place).claim({"numWorkers": 4})
    assert Checkpoint(place).claimed()["numWorkers"] == 4
    Checkpoint(place).clock.put_on(3, 250)
    assert Checkpoint(place).clock.ahead_ms == 250


def test_a_store_that_refuses_is_told_in_a_line(s3):
    place = s3.place("refused")
    wrong = Place(place.address, {**place.access, "fs.s3a.secret.key": "wrong-s3cret"})
    with pytest.raises(EnvironmentFault, match=r"s3a://bucket/refused/unskew can't be (read|written)") as told:
        Checkpoint(wrong).claim({})
    assert "\n" not in str(told.value)
    assert "s3cret" not in str(told.value)
    with pytest.raises(EnvironmentFault, match=r"s3a://no-such-bucket/x/unskew can't be written"):
        Checkpoint(Place("s3a://no-such-bucket/x", place.access)).claim({})
