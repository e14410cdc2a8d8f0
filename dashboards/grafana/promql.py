"""Queries of Prometheus: gauges as they are now, counters as rates."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef

from unskew.apps.metrics.catalogue import Metric

#: The data source, behind a variable: a dashboard can be pointed at another Prometheus.
PROMETHEUS = DataSourceRef(type_val="prometheus", uid="${prometheus}")

#: A run's name in a legend.
LEGEND = "{{grouping}} · {{stream}}"

# A run's name without its grouping, which stands first in the legend.
_NAMED = 'label_replace({}, "stream", "$1", "run", "(.+)-[a-z]+")'
_SELECTED = ('run=~"$run"', 'grouping=~"$grouping"')


def query(expression: str, by: Sequence[str] = ()) -> Dataquery:
    """A series for each run and each value of the labels ``by``."""
    legend = " · ".join([LEGEND, *(f"{label} {{{{{label}}}}}" for label in by)])
    return Dataquery().expr(_NAMED.format(expression)).legend_format(legend).ref_id("A").range()


def rate(counter: Metric, by: Sequence[str] = ()) -> str:
    """A counter's rate per second, over a minute, or since its first sample if that is later.

    A counter leaps once a batch, and a batch takes longer than Grafana's rate interval. PromQL's `rate` divides by the
    whole minute, so a constant rate would climb for a minute after the start.

    After a run's end the minute still has samples, fewer and fewer, so a constant rate would fall. There is no rate
    once the counter itself is gone: Prometheus marks its end when a scrape no longer finds it.
    """
    chosen = select_series(counter)
    since = f"clamp_max(time() - min_over_time(timestamp({chosen})[1m:1s]), 60)"
    return f"{_sum(by)} (increase({chosen}[1m]) / {since} and {chosen})"


def increase(counter: Metric) -> str:
    """The increase of a counter in the time range."""
    return f"{_sum()} (increase({select_series(counter)}[$__range]))"


def now(gauge: Metric, by: Sequence[str] = ()) -> str:
    """A gauge as it is."""
    return f"{_labels('max', by)} ({select_series(gauge)})"


def appear(gauge: Metric) -> str:
    """A gauge at the moment at which it appears."""
    return f"{now(gauge)} unless {_labels('max')} ({_before(gauge)})"


def grow(gauge: Metric, *where: str) -> str:
    """A gauge's sum, at each moment at which it is higher than the moment before."""
    return f"{_sum()} ({select_series(gauge, *where)}) > {_sum()} ({_before(gauge, *where)})"


def busiest(load: Metric) -> str:
    """The largest of a run's workers, divided by their mean."""
    return f"{now(load)} / {_labels('avg')} ({select_series(load)})"


def catching_up(lag: Metric, rate: Metric) -> str:
    """Seconds that the messages that wait would take, if no others came."""
    return f"{now(lag)} / clamp_min({now(rate)}, 1)"


def part(counter: Metric, *whole: Metric) -> str:
    """What part of some counters' increase one counter had, over the last five minutes. As ``rate`` it ends with it."""
    rates = " + ".join(_per_second(each) for each in whole)
    return f"{_per_second(counter)} / clamp_min({rates}, 1e-9) and {now(counter)}"


def age(timestamp: Metric) -> str:
    """Seconds since a timestamp."""
    return f"time() - {now(timestamp)}"


def select_series(metric: Metric, *where: str) -> str:
    """The metric's series of the selected runs for which further conditions on labels hold."""
    return f"{metric.prometheus_name}{{{', '.join([*_SELECTED, *where])}}}"


def _before(gauge: Metric, *where: str) -> str:
    """A gauge as it was at the moment before, which is one step of the query ago."""
    return f"{select_series(gauge, *where)} offset $__interval"


def _per_second(counter: Metric) -> str:
    return f"{_sum()} (rate({select_series(counter)}[5m]))"


def _sum(by: Sequence[str] = ()) -> str:
    return _labels("sum", by)


def _labels(aggregation: str, by: Sequence[str] = ()) -> str:
    return f"{aggregation} by ({', '.join(['run', 'grouping', *by])})"
