"""Of those who create a file at the same moment one does, on each kind of store."""

import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer

import pytest

from tests.http import Request, serving
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Location
from unskew.errors import EnvironmentFault, UsageError

CREATORS = 8
SERVERS = [pytest.mark.ci, pytest.mark.slow, pytest.mark.xdist_group("cluster")]
# S3Proxy isn't among them: it looks at the condition, and then writes.
OF_SERVERS = [
    pytest.param("hdfs", marks=SERVERS),
    *(pytest.param(store, marks=[*SERVERS, pytest.mark.programs]) for store in ("gs", "azure")),
]


class ConditionalStore(ThreadingHTTPServer):
    """As S3 since 2024, without a look at signatures. ``answers``: what it answers to a PUT first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.objects: dict[str, bytes] = {}
        self.answers: list[int] = []
        self.lock = threading.Lock()
        keys = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}
        self.location = Location("s3a://bucket/a", {"fs.s3a.endpoint": f"http://127.0.0.1:{self.server_port}", **keys})


class Answers(Request):
    server: ConditionalStore
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            status = self.server.answers.pop(0) if self.server.answers else 200
            if status == 200 and self.headers["If-None-Match"] == "*" and self.path in self.server.objects:
                status = 412
            if status == 200:
                self.server.objects[self.path] = body
        self.answer(status, b"", ("ETag", '"a"'))

    def do_GET(self) -> None:
        found = self.server.objects.get(self.path)
        self.answer(404 if found is None else 200, found or b"")

    def do_HEAD(self) -> None:
        found = self.server.objects.get(self.path)
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()


@pytest.fixture
def conditional():
    with serving(ConditionalStore()) as server:
        yield server


@pytest.fixture(params=["local", "conditional", *OF_SERVERS])
def location(request, tmp_path) -> Location:
    if request.param == "local":
        return Location(str(tmp_path / "checkpoint"))
    if request.param == "conditional":
        return request.getfixturevalue("conditional").location
    return request.getfixturevalue(request.param).location(tmp_path.name)


def test_one_of_many_creators_creates(location):
    barrier = threading.Barrier(CREATORS)

    def create(name: str, creator: int) -> bool:
        folder = location.folder("claims")
        barrier.wait()
        return folder.create(name, b"%d" % creator)

    with ThreadPoolExecutor(CREATORS) as pool:
        for name in ("first", "second", *(f"file {n} ü+%" for n in range(8))):
            created = [*pool.map(lambda creator, name=name: create(name, creator), range(CREATORS))]
            assert created.count(True) == 1
            assert location.folder("claims").read(name) == b"%d" % created.index(True)


def test_one_of_many_runs_claims_a_checkpoint(location):
    barrier = threading.Barrier(CREATORS)

    def claim(workers: int) -> bool:
        barrier.wait()
        try:
            Checkpoint(location).claim({"numWorkers": workers})
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(CREATORS) as pool:
        claimed = [*pool.map(claim, range(CREATORS))]
    assert claimed.count(True) == 1
    assert Checkpoint(location).read_record()["numWorkers"] == claimed.index(True)


def test_a_creator_in_s3_tries_again_and_tells_what_the_store_refuses(conditional):
    folder = conditional.location.folder("claims")
    conditional.answers = [503, 409]
    assert folder.create("name", b"1")
    conditional.answers = [501]
    with pytest.raises(EnvironmentFault, match=r"can't be written \(.*501"):
        folder.create("other", b"1")
