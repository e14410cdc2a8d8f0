"""What all servers have in common, tried on Python's own web server: a program that starts at once."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.waiting import gone
from unskew.deploy.servers import server as server_module
from unskew.deploy.servers.server import HttpServer, ServerProcess, describe_move
from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private
from unskew.server_addresses import read_address


class Web(HttpServer):
    name = "web"
    health = "/"

    def _command(self) -> list[str | Path]:
        host, _, port = self.listen_address.partition(":")
        return [sys.executable, "-m", "http.server", "--bind", host, "--directory", self.directory, port]


def address(directory: Path) -> dict:
    found = read_address(directory, Web.name)
    assert found
    return found


def port_of(server: Web) -> int:
    return int(server.listen_address.rpartition(":")[2])


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
    assert describe_move("Web", first).startswith(f"port {first}, which Web had before, is taken by another program")


def test_a_port_that_is_taken_is_refused_or_replaced(tmp_path, monkeypatch):
    (tmp_path / "web.port").write_text("none")  # is passed over
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for taken_after_the_look in (False, True):
            if taken_after_the_look:
                monkeypatch.setattr(server_module, "is_free", lambda _: True)
            with pytest.raises(EnvironmentFault, match=f"port {port} is taken"):
                Web(tmp_path, port=port).start()
        ports, choose = iter([port]), server_module.free_port
        monkeypatch.setattr(server_module, "free_port", lambda: next(ports, None) or choose())
        with Web(tmp_path) as server:
            assert port_of(server) != port, "another program had snatched it"


def test_what_cannot_start_says_why_in_one_line_and_harms_nobody(tmp_path):
    with Web(tmp_path) as first:
        with pytest.raises(EnvironmentFault, match=f"another web uses {tmp_path}"):
            Web(tmp_path).start()
        assert first.alive
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="cannot write the web's data to"):
        Web(tmp_path / "file").start()
    broken = Web(tmp_path)
    broken._command = lambda: [sys.executable, "-c", "raise SystemExit('no\\nweb')"]
    with pytest.raises(EnvironmentFault, match="the web ended while starting: web") as fault:
        broken.start()
    assert str(broken.log) in str(fault.value)
    assert "\n" not in str(fault.value)


def test_it_outlives_the_thread_that_started_it(tmp_path):
    server = Web(tmp_path)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    time.sleep(0.5)
    assert server.alive
    server.stop()


PARENT = """
import sys, time
from pathlib import Path
from signal import Signals
from unskew.deploy.servers.process import ChildProcess
ready = Path(sys.argv[1], "ready")
command, leash = ["sh", "-c", f"touch {ready}; exec sleep 600"], Signals(int(sys.argv[2]))
child = ChildProcess(command, ready.with_name("log"), at_our_death=leash)
while not ready.exists():
    time.sleep(0.05)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's parent-death signal")
@pytest.mark.parametrize(("leash", "paused"), [(ServerProcess.leash, False), (Web.leash, True)])
def test_its_process_ends_when_the_parent_is_killed(tmp_path, leash, paused):
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(leash.value)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    if paused:
        os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.communicate()
    assert gone(pid)


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
