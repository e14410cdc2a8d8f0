"""SESSIONS against a walk over the sorted times."""

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Engine, Tuple, by_key, parts, streams, whole
from unskew.operators import Now, Sessions


def plain(times, gap):
    """The sessions of a key, one after the other."""
    sessions = []
    for time in sorted(times):
        if sessions and time - sessions[-1]["last"] <= gap:
            sessions[-1]["last"] = time
            sessions[-1]["count"] += 1
        else:
            sessions.append({"start": time, "last": time, "count": 1})
    return sessions


@given(batches=streams(), gap=st.integers(1, 60))
def test_each_session_once(batches, gap):
    work = Sessions(gap / 1000)
    expected = [
        (key, session)
        for key, tuples in by_key(batches).items()
        for session in plain([each.time for each in tuples], gap)
    ]
    for run in (whole, parts):
        assert sorted(run(work, {}, batches).published, key=str) == sorted(expected, key=str)


def test_a_session_is_published_when_its_gap_has_passed():
    engine = Engine(Sessions(0.010), {})
    engine.batch(Batch([Tuple("a", 100), Tuple("a", 109)], Now(0, 119)))
    assert engine.published == []
    engine.batch(Batch([Tuple("a", 120)], Now(0, 120)))  # more than ten after 109: another session
    assert engine.published == [("a", {"start": 100, "last": 109, "count": 2})]
    assert [each["start"] for each in engine.states["a"]["sessions"]] == [120]
    engine.batch(Batch([Tuple("a", 130)], Now(0, 141)))  # both are over, and nothing is left
    assert not engine.states


def test_a_key_that_falls_silent_expires():
    engine = Engine(Sessions(0.010), {}, split=True)
    engine.batch(Batch([Tuple("a", 100)], Now(0, 100), merged=True))
    engine.batch(Batch([], Now(0, 110), merged=True))
    assert engine.published == []
    engine.batch(Batch([], Now(0, 111), merged=True))
    assert engine.published == [("a", {"start": 100, "last": 100, "count": 1})]
    assert not engine.states
