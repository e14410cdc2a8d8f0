"""Twelve runs of a hundred workers each: a real InfluxDB answers for all of them, and the picture can be read."""

import time
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise

import numpy as np
import pytest

from tests.monitoring.conftest import influxd_program, influxdb  # noqa: F401
from tests.pictures import figures  # noqa: F401
from unskew.apps.aggregator.observer import Distribution
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.metrics.metrics_reporter import sample_loads, sample_window
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.dashboards.checked_in import dashboards
from unskew.dashboards.preview.data_sources import DataSources, InfluxDB, Prometheus, Table
from unskew.dashboards.preview.files import save
from unskew.dashboards.preview.panels import Panel
from unskew.dashboards.preview.selection import Selection
from unskew.grouping.registry import COLOURS

WORKERS, BUCKET = 100, "many"
RUNS = {grouping: f"zipf-s4-w{WORKERS}-{'abcdefghijkl'[at]}" for at, grouping in enumerate(list(COLOURS)[:12])}
NAMES = {f"{grouping} · zipf-s4-w{WORKERS}" for grouping in RUNS}


@pytest.fixture(scope="module")
def many(influxdb) -> tuple[DataSources, Selection]:
    """Three windows of each run, and a batch in each window."""
    draws, end = np.random.default_rng(0), round(1000 * time.time())
    with Outputs(Destinations.of(influxdb.url, influxdb.token, influxdb.org, BUCKET)) as outputs:
        for grouping, run in RUNS.items():
            common = {"run": run, "source_type": "ZIPF", "grouping": grouping, "workers": str(WORKERS)}
            for ago in (20_000, 10_000, 0):
                loads = draws.poisson(1000, WORKERS)
                window = Distribution(end - ago - 10_000, end - ago, loads, loads, loads // 10, 5000, [])
                outputs.write(sample_loads(loads.tolist(), (loads / 1e5).tolist(), end - ago), common)
                outputs.write(sample_window(window, Totals(tuples=int(loads.sum()), loads=loads.tolist())), common)
    assert outputs.losses == ""
    stop = datetime.fromtimestamp(end / 1000, UTC)
    sources = DataSources(
        InfluxDB(influxdb.url, influxdb.token, influxdb.org, BUCKET), Prometheus("http://127.0.0.1:1")
    )
    return sources, Selection(stop - timedelta(seconds=60), stop + timedelta(seconds=1))


@pytest.mark.slow
def test_every_worker_of_every_run_is_drawn_and_can_be_read(many, figures, tmp_path):
    sources, selection = many
    [saved] = save(["workers"], sources, selection, tmp_path)
    assert saved.undrawn == {}
    assert saved.empty == ["How many keys does a rebalance move?", "How even is the load after a rebalance?"]
    for spec, axes in zip(dashboards()["workers"]["panels"], figures[-1].axes, strict=True):
        panel = Panel.of(spec, sources, selection)
        if isinstance(panel.data, Table):
            columns = dict(panel.table.columns)
            assert columns.pop("worker") == [str(worker) for worker in range(WORKERS)]
            assert columns.keys() == NAMES
            assert not any(None in values for values in columns.values())
            assert len(axes.patches) == WORKERS * len(RUNS)
        elif panel.title not in saved.empty:
            drawn = len(RUNS) * (1 if "got nothing" in panel.title else WORKERS)
            assert len(axes.lines) == len(panel.series) == drawn
        labels = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert not any(one.overlaps(other) for one, other in pairwise(labels)), panel.title
    legends = [legend.get_window_extent() for legend in figures[-1].legends]
    assert {len(legend.get_texts()) for legend in figures[-1].legends} == {len(RUNS)}
    assert not any(one.overlaps(other) for one, other in combinations(legends, 2))
