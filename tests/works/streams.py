"""Random streams: tuples of few keys, cut into batches, spread over workers, merged now and then."""

from hypothesis import strategies as st

from tests.works.driver import Batch, Tuple
from unskew.works import Now

KEYS = ("a", "b", "c", "")
WORKERS = 4


@st.composite
def streams(draw, **values):
    """Batches whose tuples are never older than the watermark of the batch before.

    ``values``: column → strategy.
    """
    tuples = st.builds(
        Tuple,
        st.sampled_from(KEYS),
        st.integers(0, 40),
        st.integers(0, WORKERS - 1),
        st.fixed_dictionaries(values),
    )
    batches, watermark = [], draw(st.integers(0, 5)) * 100
    for drawn in draw(st.lists(st.lists(tuples, max_size=12), max_size=6)):
        for each in drawn:
            each.time += watermark
        now = watermark + draw(st.integers(0, 60))
        batches.append(Batch(drawn, Now(now + 1000, now), draw(st.booleans())))
        watermark = now
    return batches


def tuples_of(batches):
    return [each for batch in batches for each in batch.tuples]


def by_key(batches):
    """Key → its tuples."""
    found = {}
    for each in tuples_of(batches):
        found.setdefault(each.key, []).append(each)
    return found
