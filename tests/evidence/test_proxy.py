"""The proxy of the campaign of faults: it hands on bytes and ends. While it is cut nothing comes; nothing is lost."""

import socket
import threading

import pytest

from evidence.faults.proxy import OUTSIDE, Proxy, free_ports
from unskew.loopback import LOOPBACK

SENT = bytes(range(256)) * 20_000  # more than the buffers on the way
PATIENCE = 60  # s
CUT = 1.0  # s


@pytest.fixture
def server():
    """A listening socket at a port of the servers' address."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, free_ports(2)[0]))
        listening.settimeout(PATIENCE)
        listening.listen()
        yield listening


@pytest.fixture
def proxy(server, tmp_path):
    port = server.getsockname()[1]
    with Proxy(tmp_path / "proxy.log", range(port, port + 1)) as one:
        server.accept()[0].close()  # by which the proxy showed that it listens
        yield one


@pytest.fixture
def ends(server, proxy):
    """A connection through the proxy: the client's end, and the server's."""
    with socket.create_connection((OUTSIDE, proxy.ports[0]), PATIENCE) as client, server.accept()[0] as accepted:
        accepted.settimeout(PATIENCE)
        yield client, accepted


def received(end, size):
    """So many bytes, or all that come until the other end is closed."""
    parts = bytearray()
    while len(parts) < size and (part := end.recv(min(1 << 16, size - len(parts)))):
        parts += part
    return bytes(parts)


def test_bytes_go_both_ways_and_so_does_the_end(ends):
    client, accepted = ends
    for one, other in (ends, (accepted, client)):
        sending = threading.Thread(target=one.sendall, args=[SENT])
        sending.start()
        assert received(other, len(SENT)) == SENT
        sending.join(PATIENCE)
    client.shutdown(socket.SHUT_WR)
    assert accepted.recv(1) == b""
    accepted.sendall(b"still")
    assert received(client, 5) == b"still"
    accepted.close()
    assert client.recv(1) == b""


def test_while_it_is_cut_nothing_comes_and_then_all_of_it(ends, proxy, server):
    client, accepted = ends
    client.sendall(b"before")
    assert received(accepted, 6) == b"before"
    proxy.cut()
    sending = threading.Thread(target=client.sendall, args=[SENT])
    sending.start()
    accepted.settimeout(CUT)
    with pytest.raises(TimeoutError):
        accepted.recv(1)
    with socket.create_connection((OUTSIDE, proxy.ports[0]), PATIENCE) as late:
        late.sendall(b"late")
        proxy.mend()
        accepted.settimeout(PATIENCE)
        assert received(accepted, len(SENT)) == SENT
        sending.join(PATIENCE)
        with server.accept()[0] as second:
            second.settimeout(PATIENCE)
            assert received(second, 4) == b"late"
