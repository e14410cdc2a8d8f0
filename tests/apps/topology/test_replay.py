"""A batch that is run again by another driver publishes the same bytes."""

import pytest

from tests.apps.conftest import countries, publish
from unskew.apps.aggregator.publisher import ResultPublisher
from unskew.apps.driver.batch_committer import BatchCommitter
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.errors import EnvironmentFault

pytestmark = [pytest.mark.nightly(group="groupings"), pytest.mark.spark, pytest.mark.kafka]


class Died(Exception):
    """As a driver that is killed when its results are out and nothing is committed."""


def test_a_second_sink_writes_what_the_first_wrote(settings, spark, drain, connection, topic, monkeypatch):
    publish(connection, topic, 2, countries(["a", "b", "c", "a"] * 100))
    wrote: list[list[tuple[str, bytes]]] = []
    died = []
    publish_, send = BatchCommitter._publish, ResultPublisher.send

    def sent(publisher, role, messages, number):
        written = [*messages]
        wrote[-1].extend((message.key, message.value) for message in written)
        send(publisher, role, written, number)

    def dies(sink, windows, totals, batch):
        if windows:
            wrote.append([])
        published = publish_(sink, windows, totals, batch)
        if windows and batch.start == batch.end and not died:  # no source had a tuple in this batch
            died.append(len(wrote))
            raise Died
        return published

    monkeypatch.setattr(ResultPublisher, "send", sent)
    monkeypatch.setattr(BatchCommitter, "_publish", dies)
    watching = {"warm_up": 0.0, "check_interval": 0.1, "promotion_period": 0.1, "periods_to_old": 1}
    run = settings("DYNAMIC_KEY", options=watching, max_tuples=100, trigger=0.0, run_time=600.0)
    with pytest.raises(EnvironmentFault, match="the query failed"):
        StreamingJob(run, []).run(spark)
    assert died == [len(wrote)]
    drain(run)
    first, second = wrote[died[0] - 1 : died[0] + 1]
    assert second == first
    assert any("/OLD_SPACE/" in key for key, _ in first)
