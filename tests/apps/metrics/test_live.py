"""The live view of reports and progress, as text."""

import numpy as np
import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import progress, report, shown
from unskew.apps.aggregator.observer import Distribution, HotKey
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.display import Display, LiveView
from unskew.apps.metrics.metrics_reporter import sample_progress
from unskew.apps.metrics.query_progress import compute_lags
from unskew.errors import UsageError


def window(*hottest):
    zeros = np.zeros(4, np.int64)
    return Distribution(0, 1000, zeros, zeros, zeros, 2, list(hottest))


@pytest.fixture
def run():
    return settings()


def test_the_newest_batch_its_lag_and_the_hottest_keys(run):
    view = LiveView(run)
    view.batch(report([1, 1, 1, 1]))
    view.batch(report([100, 100, 100, 700], [window(HotKey("Turkey", 700, 700, 3), HotKey("[red]", 5, 5, 1))]))
    view.batch(report([0, 0, 0, 0]))  # an idle one takes nothing away
    view.progress(progress([15, 120], [10, 20], rate=1234.5))
    text = shown(view)
    for figure in ("70.0 %", "0.70 s", "25.98", "1,234", "105"):  # 25.98 is the STD_DEV of 10, 10, 10, 70
        assert figure in text
    hottest = [line for line in text.splitlines() if "Turkey" in line or "[red]" in line]
    assert "700" in hottest[0]
    assert len(hottest) == 2


def test_a_key_does_nothing_to_the_terminal(run):
    view = LiveView(run)
    view.batch(report([1, 1, 1, 1], [window(HotKey("\x1b]0;title\x07\x1b[2J[/]", 9, 9, 1))]))
    text = shown(view)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert r"\x1b]0;title\x07\x1b[2J" in text


def test_a_replayed_batch_has_no_lag(run):
    """Spark doesn't get Kafka's newest offsets then; the sources' own offsets are known all the same."""
    replayed = progress(None, [10, 20], batch=7)
    assert compute_lags(replayed) == {}
    view = LiveView(run)
    view.batch(report([1, 1, 1, 1]))
    view.progress(replayed)
    assert "lag" not in shown(view)
    sources = [sample for sample in sample_progress(replayed, 5) if sample.subject == catalogue.SOURCE]
    assert [sample.values for sample in sources] == [{"offset": 10}, {"offset": 20}]


def test_an_uneven_topic(run):
    """Of eight partitions one gets nearly everything, and the others little or nothing."""
    view = LiveView(run)
    view.batch(report([1, 1, 1, 1]))
    for second, busiest in ((0, 0), (10, 930)):
        view.progress(progress([0, 0, 0, busiest, 0, busiest // 31, 0, 0], [0] * 8, second))
    (line,) = [line for line in shown(view).splitlines() if "busiest / mean partition" in line]
    assert "7.75" in line
    assert "hot: 3" in line


def test_no_terminal(run):
    with pytest.raises(UsageError, match="--live needs a terminal"):
        Display(run, view=LiveView(run))
