"""How long a run took to recover after a restart, as a metric, by the lag that the checkpoint keeps."""

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.metrics.recovery import LastLag, Recovery

BATCH = report([2, 2])


def progress(taken, newest):
    """Spark's progress of ``BATCH``. A batch that is replayed has no newest offsets."""
    ends = {str(partition): end for partition, end in enumerate(newest)}
    return {
        "batchId": BATCH.batch.number,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "durationMs": {},
        "stateOperators": [],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[t]]",
                "endOffset": {"t": {str(partition): offset for partition, offset in enumerate(taken)}},
                "latestOffset": {"t": ends} if ends else None,
            }
        ],
    }


def started(tmp_path, outputs):
    """A run's monitor that has heard of a batch."""
    monitor = MetricsReporter(settings(checkpoint=str(tmp_path)), outputs)
    monitor.batch(BATCH)
    return monitor


def shown(outputs):
    """The page's values of the query: lag, and how long the recovery took."""
    page = {family.name: family.samples[0].value for family in outputs.exporter.collect()}
    return page["unskew_query_lag"], page.get("unskew_query_recovery_seconds")


def test_it_is_measured_until_the_lag_of_all_partitions_is_what_it_was(tmp_path):
    with Outputs(Destinations(prometheus_port=0)) as outputs:
        first = started(tmp_path, outputs)
        first.progress(progress([10, 10], [15, 17]))
        assert shown(outputs) == (12, None), "it wasn't restarted"
        again = started(tmp_path, outputs)
        again.progress(progress([20, 20], []))
        again.progress(progress([20, 20], [90, 25]))
        assert shown(outputs) == (75, None), "it is behind"
        again.progress(progress([84, 20], [90, 26]))
        lag, seconds = shown(outputs)
        assert lag == 12
        assert 0 < seconds < 60
        again.progress(progress([90, 20], [90, 26]))
        assert shown(outputs) == (6, seconds), "it is measured once"


def test_a_run_of_an_older_version_was_there_before(tmp_path):
    (tmp_path / "unskew").mkdir()
    with Outputs(Destinations(prometheus_port=0)) as outputs:
        started(tmp_path, outputs).progress(progress([10], [10]))
        assert shown(outputs) == (0, None)
    assert LastLag(str(tmp_path)).messages == 0


def test_a_file_that_cannot_be_read_is_none_and_a_lag_that_stays_is_not_written_again(tmp_path):
    (tmp_path / "unskew").mkdir()
    file = tmp_path / "unskew" / "lag.json"
    for damaged in (b"", b"{", b"7", b"{}", b'{"messages": null}', b'{"messages": "many"}'):
        file.write_bytes(damaged)
        last = LastLag(str(tmp_path))
        assert last.messages is None
    last.set(7)
    file.unlink()
    last.set(7)
    assert not file.exists()
    last.set(8)
    assert LastLag(str(tmp_path)).messages == 8
    assert [path.name for path in file.parent.iterdir()] == ["lag.json"]


def test_the_next_run_recovers_to_the_lag_of_the_newest_stop():
    times = iter([100.0, 130.0])
    recovery = Recovery(5, lambda: next(times))
    assert [recovery.after(lag) for lag in (900, 6, 5, 0)] == [None, None, 30.0, None]
    assert Recovery(None).after(0) is None
