"""Messages that say how much they count: one that says nonsense spoils no sum."""

import orjson
import pytest

from tests.apps.conftest import by_key, final_counts, publish, records
from tests.apps.process import START
from unskew.apps.topology.publisher import result_topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def views(n):
    return orjson.dumps({"lang": "en", "page": "p", "n": n, "m": 1})


def test_counts_that_no_sum_can_hold(settings, drain, connection, topic):
    nonsense = [2**63 - 1, 2**63 - 1, -(2**63), -7, 10**18, 10**12 + 1]
    counts = [5, *nonsense, 3, 10**12, 0]
    # All in one window, in several batches.
    publish(connection, topic, 2, list(map(views, counts)), ms=[START] * len(counts))
    run = settings("KEY", source_type="WIKIPEDIA_PAGEVIEWS_BY_LANG", max_tuples=2, time="event", run_time=600.0)
    _, reports = drain(run)
    topics = result_topics(run)
    assert by_key(final_counts(connection, topics["aggregator"])) == {"en": 10**12 + 8}
    assert reports[-1].totals.rejected == len(nonsense)
    reasons = {said["reason"] for _, said in records(connection, topics["rejected"])}
    assert reasons == {f"the count is {n}, not 0 to {10**12}" for n in nonsense}
