"""What a LOCAL run, and the broker that it reads from, listen on: this machine's own interface alone."""

import os
from ipaddress import ip_address

import psutil
import pytest

from tests.harness.topology import launch, truth  # noqa: F401  fixtures
from tests.waiting import awaited
from unskew.apps.driver import session
from unskew.deploy.servers.embedded_broker import read_broker_address

#: Workers with states: their tasks serve them to Python by sockets of their own.
SESSIONS = ["--work", "unskew.operators:Sessions", "--work-option", "gap=0.4"]
#: What else can be switched on, and then listens.
PAGES = ["--metrics", "prometheus://127.0.0.1:0", "--conf", "spark.ui.enabled=true"]


def family(*programs: int) -> list[psutil.Process]:
    """Processes, and all that they have started."""
    parents = list(map(psutil.Process, programs))
    return [*parents, *(child for process in parents for child in process.children(recursive=True))]


def listens(process: psutil.Process) -> set[tuple[str, str]]:
    """The addresses that a process listens on, each with its program."""
    try:
        found = {socket.laddr.ip for socket in process.net_connections("inet") if socket.status == "LISTEN"}
        return {(address.removeprefix("::ffff:"), process.name()) for address in found}  # IPv4's in a socket of IPv6's
    except psutil.Error:  # it is at its end
        return set()


@pytest.mark.ci
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.takes(30)
def test_nobody_else_reaches_a_local_run(kafka, launch, truth):
    topology = launch("D_CHOICES", *SESSIONS, *PAGES, "--max-tuples", "200")
    broker, found = read_broker_address(kafka.data), set()

    def looked_at() -> bool:
        """Whether it was looked at while batches were under way."""
        for process in family(topology.process.pid, broker.pid):
            found.update(listens(process))
        return topology.committed() > 3

    awaited(looked_at, "four batches", every=0.2)
    assert {program for _, program in found} >= {"java"}, "its JVM was not seen"
    assert {listening for listening in found if not ip_address(listening[0]).is_loopback} == set()


def test_the_users_own_address_wins(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with session._bind_loopback():
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in os.environ
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.7")
    with session._bind_loopback():
        assert os.environ["SPARK_LOCAL_IP"] == "192.0.2.7"
    assert os.environ["SPARK_LOCAL_IP"] == "192.0.2.7"
