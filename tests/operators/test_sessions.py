"""SESSIONS against those of all tuples by key, and when they are published."""

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Engine, Tuple, parts, streams, tuples_of, whole
from tests.sessions import sessions
from unskew.operators import Now, Sessions


@given(batches=streams(), gap=st.integers(1, 60))
def test_each_session_once(batches, gap):
    work = Sessions(gap / 1000)
    expected = sorted(sessions(((each.key, each.time) for each in tuples_of(batches)), gap))
    for run in (whole, parts):
        assert sorted((key, *row.values()) for key, row in run(work, {}, batches).published) == expected


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
