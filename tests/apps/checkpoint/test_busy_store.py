"""A store that is busy for a moment: the clients of Azure and Google send a request again."""

from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from tests.http import Request, serving
from unskew.apps.checkpoint.location import Location
from unskew.errors import EnvironmentFault

OF_AZURE = {409: "BlobAlreadyExists", 412: "ConditionNotMet"}


class Busy(ThreadingHTTPServer):
    """Answers with the statuses one after the other; 0 closes the connection without an answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.statuses: list[int] = []
        self.requests: list[bytes] = []

    def location(self, scheme: str) -> Location:
        if scheme == "gs":
            root = {
                "fs.gs.storage.root.url": f"http://127.0.0.1:{self.server_port}",
                "fs.gs.auth.type": "UNAUTHENTICATED",
            }
            return Location("gs://bucket/a", root)
        settings = {
            "fs.azure.account.key": "a2V5",
            "fs.azure.abfs.endpoint": f"127.0.0.1:{self.server_port}",
            "fs.azure.always.use.https": "false",
        }
        return Location("abfs://container@account.dfs.core.windows.net/a", settings)


class Answers(Request):
    server: Busy

    def do_PUT(self) -> None:
        self.server.requests.append(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.statuses.pop(0)
        if status:
            code = "x-ms-error-code", OF_AZURE.get(status, "")
            self.answer(status, b"{}", ("Content-Type", "application/json"), code)

    def do_POST(self) -> None:
        self.do_PUT()


@pytest.fixture
def store() -> Iterator[Busy]:
    with serving(Busy()) as server:
        yield server


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "written", "exists"), [("abfs", 201, 409), ("abfs", 201, 412), ("gs", 200, 412)])
def test_a_file_is_sent_again_while_the_store_is_busy(store, scheme, written, exists):
    folder = store.location(scheme).folder()
    store.statuses = [503, written, 0, written, 503, exists]
    folder.write("one", b"the data")
    assert folder.create("two", b"the data")
    assert not folder.create("three", b"the data"), "its first request may have written it"
    assert len(store.requests) == 6
    assert all(b"the data" in request for request in store.requests)


@pytest.mark.parametrize("scheme", ["abfs", "gs"])
def test_a_refusal_is_final(store, scheme):
    store.statuses = [403, 201]
    with pytest.raises(EnvironmentFault, match=r"can't be written \(") as error:
        store.location(scheme).folder().write("one", b"the data")
    assert "\n" not in str(error.value)
    assert len(store.requests) == 1
