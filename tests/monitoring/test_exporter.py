"""The page for Prometheus, as an HTTP client sees it."""

import socket

import numpy as np
import pytest

from tests.apps import local_settings
from tests.apps.conftest import settings  # noqa: F401
from tests.http import series
from unskew.apps.aggregator.observer import Distribution, HotKey
from unskew.apps.checkpoint.versions import Totals, TotalsLog
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import COMMON, METRICS, Sample
from unskew.apps.metrics.metrics_reporter import MetricsReporter, sample_window
from unskew.apps.metrics.outputs import Destinations, Exporter, Outputs
from unskew.errors import UsageError

LABELS = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "2"}


def page(exporter):
    """Series as on the page → value."""
    return series(exporter.url)


def test_the_newest_value_of_each_series():
    with Exporter(0, "127.0.0.1") as exporter:
        assert page(exporter) == {}
        exporter.write([Sample(catalogue.BATCH, 1, {"tuples": 5, "late": 1})], LABELS)
        exporter.write([Sample(catalogue.BATCH, 2, {"tuples": 7})], LABELS)
        exporter.write([Sample(catalogue.TASK, 2, {"tuples": 3}, {"worker": w}) for w in "01"], LABELS)
        common = 'grouping="KEY",run="r",source_type="T"'
        assert page(exporter) == {
            f'unskew_batch_tuples{{{common},workers="2"}}': 7,
            f'unskew_batch_late{{{common},workers="2"}}': 1,
            f'unskew_task_tuples{{{common},worker="0",workers="2"}}': 3,
            f'unskew_task_tuples{{{common},worker="1",workers="2"}}': 3,
        }


def test_values_are_in_base_units_and_no_key_becomes_a_label():
    with Exporter(0, "127.0.0.1") as exporter:
        exporter.write([Sample(catalogue.WINDOW, 1, {"std_dev": 12.5, "duration": 2500, "imbalance": 3})], LABELS)
        exporter.write([Sample(catalogue.HOT_KEY, 1, {"key": "Turkey", "tuples": 5}, {"rank": "1"})], LABELS)
        exporter.write([Sample(catalogue.EVENT, 1, {"text": "started"}, {"kind": "start"})], LABELS)
        assert {series.split("{")[0]: value for series, value in page(exporter).items()} == {
            "unskew_window_std_dev_ratio": 0.125,
            "unskew_window_duration_seconds": 2.5,
            "unskew_window_imbalance": 3,
            "unskew_hot_key_tuples": 5,
        }
        assert not any("Turkey" in series for series in page(exporter))


def test_a_window_with_fewer_keys_removes_the_ranks_that_it_lacks():
    """Windows may come in one call, and the samples of a window that comes again replace themselves."""

    def window(end: int, *tuples: int) -> list[Sample]:
        hottest = [HotKey(f"key {rank}", each, each, 1) for rank, each in enumerate(tuples)]
        loads = np.array([sum(tuples), 0])
        distribution = Distribution(end - 1000, end, loads, loads, loads, len(tuples), hottest)
        return list(sample_window(distribution, Totals(tuples=sum(tuples), loads=loads.tolist())))

    def ranks(exporter) -> dict[str, float]:
        found = {name: value for name, value in page(exporter).items() if name.startswith("unskew_hot_key_tuples")}
        return {name.split('rank="')[1].split('"')[0]: value for name, value in found.items()}

    with Exporter(0, "127.0.0.1") as exporter:
        exporter.write([*window(1000, 9, 8, 7), *window(2000, 6, 5)], LABELS)
        assert ranks(exporter) == {"1": 6, "2": 5}
        exporter.write(window(2000, 6, 5), LABELS)
        assert ranks(exporter) == {"1": 6, "2": 5}
        exporter.write(window(3000, *range(20, 10, -1)), LABELS)
        assert ranks(exporter) == {str(rank): 21 - rank for rank in range(1, 11)}
        exporter.write(window(4000, 1), LABELS)
        assert ranks(exporter) == {"1": 1}
        assert {"unskew_worker_tuples", "unskew_hot_key_counts", "unskew_hot_key_holders"} <= {
            name.split("{")[0] for name in page(exporter)
        }


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f":{port}: the port isn't free"):
            Exporter(port)


def test_by_default_only_this_machine_sees_the_page():
    with Exporter(0) as exporter:
        assert exporter.url == f"http://127.0.0.1:{exporter.port}/metrics"
        # 127/8 is all of this machine: another address of it stands for another interface.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", exporter.port))
    with Exporter(0, "0.0.0.0") as exporter:
        socket.create_connection(("127.0.0.2", exporter.port)).close()
    with pytest.raises(UsageError, match=r"198\.51\.100\.1:.* an address of this machine"):
        Exporter(0, "198.51.100.1")


def test_counters_go_on_where_the_checkpoint_is(settings):
    run = settings("KEY", workers=2)
    totals = Totals(routed=700, rejected=3, late=2, tuples=500, loads=[300, 200])
    TotalsLog(run.checkpoint).write(4, totals)
    with Outputs(Destinations(None, 0)) as outputs:
        MetricsReporter(run, outputs)
        found = {series.split("{")[0]: value for series, value in page(outputs.exporter).items()}
        closed = [value for series, value in page(outputs.exporter).items() if "worker_closed_total" in series]
    assert found["unskew_run_tuples_total"] == 700
    assert found["unskew_run_rejected_total"] == 3
    assert closed == [300, 200]


@pytest.mark.parametrize(("workers", "loads", "shown"), [(2, [], [0, 0]), (3, [7, 2], [7, 2, 0]), (1, [7, 2], [7])])
def test_each_worker_of_the_run_is_counted_from_its_beginning(workers, loads, shown, tmp_path):
    """Otherwise an increase would lack the first windows; and a worker that is no more would be an idle one."""
    run = local_settings.settings(workers=workers, checkpoint=str(tmp_path))
    if loads:
        TotalsLog(run.checkpoint).write(4, Totals(tuples=sum(loads), loads=loads))
    with Outputs(Destinations(None, 0)) as outputs:
        MetricsReporter(run, outputs)
        assert [value for series, value in page(outputs.exporter).items() if "worker_closed_total" in series] == shown


def test_names_are_unique_and_labels_are_none_of_the_common_ones():
    names = [metric.prometheus_name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert not metric.subject.labels.keys() & COMMON.keys()
        # InfluxDB can't pivot a field that is called as a tag is.
        assert metric.name not in COMMON.keys() | metric.subject.labels.keys()
