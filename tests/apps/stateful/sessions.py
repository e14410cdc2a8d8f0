"""The sessions of the stream of ``tests.harness.topology``: how a topology is asked for them, and which there are."""

from collections import Counter

from tests.apps.conftest import records
from tests.harness.topology import check, stream
from tests.sessions import sessions

GAP_MS = 400
SESSIONS = ["--work", "unskew.operators:Sessions", "--work-option", f"gap={GAP_MS / 1000}"]

#: Keys move after every batch in which workers' measured times differ: after most.
ALWAYS = ["-g", "theta_max=0", "-g", "window=1"]


def sessions_of(stream):
    """(key, start, last, count) of each session."""
    return set(sessions(((key, ms) for key, ms, _ in stream), GAP_MS))


def read_sessions(latest):
    return Counter((value["key"], *(value["fields"][n] for n in ("start", "last", "count"))) for value in latest)


def require_exact(connection, topic, truth):
    """Require the counts and the sessions of a run of MIXED over the stream."""
    check(connection, topic, "mixed", truth)
    latest = dict(records(connection, f"{topic}-s2-w4-mixed-results")).values()
    assert read_sessions(latest) == Counter(sessions_of(stream()))
