"""Folders on Azure's and Google's stores: what is particular to them. What all folders do is in `test_folders.py`."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.apps.stores.servers import BUCKET
from tests.http import Request, serving
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Location
from unskew.errors import EnvironmentFault

pytestmark = [pytest.mark.slow, pytest.mark.programs, pytest.mark.xdist_group("clouds")]


@pytest.fixture(params=["azure", "gs"])
def location(request, tmp_path) -> Location:
    return request.getfixturevalue(request.param).location(tmp_path.name)


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
        for start, size in [(len(data) - 10, 100), (1_500_005, 2_000_000), (0, 3), (len(data), 1)]:
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


def test_azure_takes_a_token_instead_of_the_key(azure):
    """It may read and write here. One that may only read is refused, in a line that doesn't have it."""
    location, name = azure.location("by token"), "fs.azure.sas.fixed.token"
    others = {each: value for each, value in location.access.items() if each != "fs.azure.account.key"}

    def by_token(**may: bool) -> Location:
        until = datetime.now(UTC) + timedelta(hours=1)
        of = azure.user, BUCKET, azure.secret
        token = generate_container_sas(
            *of[:2], account_key=of[2], permission=ContainerSasPermissions(**may), expiry=until
        )
        return Location(location.address, {**others, "fs.azure.account.auth.type": "SAS", name: token})

    folder = by_token(read=True, write=True, create=True, delete=True, list=True).folder()
    assert folder.create("one", b"1")
    assert not folder.create("one", b"2")
    assert (folder.names(), folder.read("one")) == (["one"], b"1")
    reader = by_token(read=True, list=True)
    assert reader.folder().read("one") == b"1"
    with pytest.raises(EnvironmentFault, match=r"can't be written \(") as error:
        reader.folder().write("one", b"3")
    assert "\n" not in str(error.value)
    assert "sig=" not in str(error.value)
    folder.remove("one")
    assert folder.names() == []


def test_google_refuses_in_a_line(gs):
    nowhere = Location("gs://no-such-bucket/a", gs.location("a").access).folder()
    for write in (nowhere.write, nowhere.create):
        with pytest.raises(EnvironmentFault, match=r"gs://no-such-bucket/a can't be written \(.*Not Found") as error:
            write("one", b"1")
        assert "\n" not in str(error.value)


class Tokens(ThreadingHTTPServer):
    """A stand-in for what gives tokens of Google's accounts: to machines, and for key files."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []


class Answers(Request):
    server: Tokens

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        account = {"email": "tests@example.org", "scopes": [], "aliases": ["default"]}
        token = {"access_token": "t0ken", "expires_in": 3600, "token_type": "Bearer"}
        known = {"token": json.dumps(token), "universe-domain": "googleapis.com"}
        body = known.get(self.path.partition("?")[0].rpartition("/")[2], json.dumps(account)).encode()
        kind = "application/json" if body.startswith(b"{") else "text/plain"
        self.answer(200, body, ("Metadata-Flavor", "Google"), ("Content-Type", kind))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    with serving(Tokens()) as server:
        yield server


# Google's client reads the address of a machine's own server when it is imported.
USE = """
import json, sys
from unskew.apps.checkpoint.location import Location
folder = Location(sys.argv[1], json.loads(sys.argv[2])).folder()
print(folder.create("one", b"1"), folder.create("one", b"2"), folder.names(), folder.read("one"))
"""


def _used(address: str, settings: dict[str, str], environment: dict[str, str]) -> str:
    environment = {**os.environ, "GOOGLE_APPLICATION_CREDENTIALS": "", **environment}
    command = [sys.executable, "-c", USE, address, json.dumps(settings)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("kind", [None, "APPLICATION_DEFAULT", "COMPUTE_ENGINE"])
def test_on_googles_machines_their_account_is_used(gs, tokens, kind, tmp_path):
    settings = {"fs.gs.storage.root.url": gs.url} | ({"fs.gs.auth.type": kind} if kind else {})
    host = f"127.0.0.1:{tokens.server_port}"
    environment = {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "CLOUDSDK_CONFIG": str(tmp_path)}
    assert _used(f"gs://bucket/{tmp_path.name}", settings, environment) == "True False ['one'] b'1'"
    assert "GET /computeMetadata/v1/instance/service-accounts/default/token" in tokens.asked


@pytest.fixture(scope="module")
def pem() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


@pytest.mark.parametrize("by", ["setting", "environment"])
def test_a_key_file_of_google_is_used(gs, tokens, by, tmp_path, pem):
    file, address = tmp_path / "key.json", f"gs://bucket/{tmp_path.name}"
    settings, environment = {"fs.gs.storage.root.url": gs.url}, {}
    if by == "setting":
        settings["fs.gs.auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
        settings["fs.gs.auth.service.account.json.keyfile"] = str(file)
    else:
        environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(file)
    for content in (None, "no JSON"):
        if content:
            file.write_text(content)
        said = _used(address, settings, environment)
        assert f"EnvironmentFault: the checkpoint location {address} can't be reached (" in said
    account = {"type": "service_account", "client_email": "tests@example.org", "client_id": "1", "private_key_id": "1"}
    account |= {"private_key": pem, "token_uri": f"http://127.0.0.1:{tokens.server_port}/token"}
    file.write_text(json.dumps(account))
    assert _used(address, settings, environment) == "True False ['one'] b'1'"
    assert {*tokens.asked} == {"POST /token"}
