"""What all servers have in common, tried on Python's own web server: a program that starts at once."""

import os
import socket
import sys
from pathlib import Path

from unskew.deploy.servers.server import HttpServer, moved, read_address, write_private


class Web(HttpServer):
    name = "web"
    health = "/"

    def _command(self) -> list[str | Path]:
        host, _, port = self.listens.partition(":")
        return [sys.executable, "-m", "http.server", "--bind", host, "--directory", self.directory, port]


def address(directory: Path) -> dict:
    found = read_address(directory, Web.name)
    assert found
    return found


def port_of(server: Web) -> int:
    return int(server.listens.rpartition(":")[2])


def test_a_later_server_has_the_port_of_the_last_one(tmp_path):
    with Web(tmp_path) as server:
        first = port_of(server)
        server.restart()
        assert port_of(server) == first
    with Web(tmp_path) as server:
        assert port_of(server) == first
        assert "moved_from" not in address(tmp_path)


def test_a_port_that_another_program_has_meanwhile_is_replaced_and_named(tmp_path):
    with Web(tmp_path) as server:
        first = port_of(server)
    with socket.create_server(("127.0.0.1", first)), Web(tmp_path) as server:
        second = port_of(server)
        assert second != first
        assert address(tmp_path)["moved_from"] == first
    with Web(tmp_path) as server:
        assert port_of(server) == second
        assert "moved_from" not in address(tmp_path)
    assert moved("Web", first).startswith(f"port {first}, which Web had before, is taken by another program")


def test_a_port_that_the_caller_names_is_kept_too(tmp_path):
    with Web(tmp_path) as server:
        first = port_of(server)
    with Web(tmp_path / "other") as server:
        second = port_of(server)
    with Web(tmp_path, port=second) as server:
        assert port_of(server) == second != first
    with Web(tmp_path) as server:
        assert port_of(server) == second


def test_what_is_no_port_is_passed_over(tmp_path):
    (tmp_path / "web.port").write_text("none")
    with Web(tmp_path) as server:
        assert server.alive


def test_a_secret_is_nobody_elses_from_its_first_byte_on(tmp_path, monkeypatch):
    monkeypatch.delattr(Path, "chmod")  # between writing a file and changing its mode, others could read it
    (tmp_path / "token.new").write_text("of an interruption")
    before = os.umask(0)
    try:
        write_private(tmp_path / "token", "s3cret")
    finally:
        os.umask(before)
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("token", 0o600)]
    assert (tmp_path / "token").read_text() == "s3cret"


def test_a_large_log_is_put_aside(tmp_path):
    for text in ("old", "new"):
        (tmp_path / "web.log").write_text(f"{text}\n" * (3 << 20))
        with Web(tmp_path):
            assert (tmp_path / "web.log").stat().st_size < 1 << 20
        assert (tmp_path / "web.log.1").read_text().startswith(text)
