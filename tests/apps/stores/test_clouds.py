"""Folders on Azure's store: what is particular to them. What all folders do is in `test_folders.py`."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Location
from unskew.errors import EnvironmentFault

pytestmark = [pytest.mark.slow, pytest.mark.programs, pytest.mark.xdist_group("clouds")]

WRITERS = 8


@pytest.fixture(params=["azure"])
def location(request, tmp_path) -> Location:
    return request.getfixturevalue(request.param).location(tmp_path.name)


def test_of_many_who_create_a_file_at_once_one_writes_it(location):
    for n in range(10):
        begin = threading.Barrier(WRITERS)

        def create(writer: int, name=f"file {n} ü+%", begin=begin) -> bool:
            folder = location.folder("a")
            begin.wait()
            return folder.create(name, b"%d" % writer)

        with ThreadPoolExecutor(WRITERS) as writers:
            created = [*writers.map(create, range(WRITERS))]
        assert created.count(True) == 1
        assert location.folder("a").read(f"file {n} ü+%") == b"%d" % created.index(True)


def test_a_reader_finds_the_old_file_or_the_new_one(location):
    folder, values = location.folder("a"), [bytes([n]) * 100_000 for n in range(20)]
    folder.write("one", values[0])
    written = threading.Event()
    found: list[bytes] = []

    def read() -> None:
        while not written.is_set():
            found.append(location.folder("a").read("one"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for value in values:
            folder.write("one", value)
    finally:
        written.set()
        reader.join()
    assert found
    assert {*found} <= {*values}


def test_parts_of_a_file_are_read_by_themselves(location):
    folder = location.folder("a")
    data = bytes(range(256)) * 12_000
    folder.write("one", data)
    with folder.open("one") as file:
        assert file.size() == len(data)
        for start, size in [(len(data) - 10, 100), (1_500_000, 20), (1_500_005, 2_000_000), (0, 3), (len(data), 1)]:
            file.seek(start)
            assert file.read(size) == data[start : start + size]
    with pytest.raises(FileNotFoundError):
        folder.open("two")


def test_azure_refuses_a_wrong_key_in_a_line(azure):
    location = azure.location("refused")
    wrong = "d3Jvbmc="
    refused = Location(location.address, {**location.access, "fs.azure.account.key": wrong})
    with pytest.raises(
        EnvironmentFault, match=r"refused/unskew can't be read \(Server failed to authenticate"
    ) as error:
        Checkpoint(refused).claim({})
    assert "\n" not in str(error.value)
    assert wrong not in str(error.value)
    nowhere = Location(location.address.replace("bucket@", "no-such@"), location.access).folder()
    with pytest.raises(EnvironmentFault, match=r"no-such@.* can't be written \(.*container does not exist"):
        nowhere.create("one", b"1")
    with pytest.raises(EnvironmentFault, match=r"no-such@.* can't be read \(.*container does not exist"):
        nowhere.read("one")
    malformed = Location(location.address, {**location.access, "fs.azure.account.key": "x"}).folder()
    with pytest.raises(EnvironmentFault, match=r"can't be written \("):
        malformed.write("one", b"1")
