"""Queries of Prometheus: what is going on now, counters as rates."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders.prometheus import Dataquery

from unskew.apps.monitoring.catalogue import Metric
from unskew.dashboards.grafana.sources import PROMETHEUS

#: A run's name without its grouping, which the legend names first.
_NAMED = 'label_replace({}, "stream", "$1", "run", "(.+)-[a-z]+")'
_LEGEND = "{{grouping}} · {{stream}}"


def query(expression: str, by: Sequence[str] = ()) -> Dataquery:
    """A series for each run and each value of the labels ``by``."""
    legend = " · ".join([_LEGEND, *(f"{label} {{{{{label}}}}}" for label in by)])
    return Dataquery().datasource(PROMETHEUS).expr(_NAMED.format(expression)).legend_format(legend).ref_id("A").range()


def rate(counter: Metric, by: Sequence[str] = ()) -> str:
    """Per second, over a minute: counters leap once a batch, and a batch takes longer than Grafana's rate interval."""
    return f"{_sum(by)} (rate({selected(counter)}[1m]))"


def increase(counter: Metric) -> str:
    """In the time range."""
    return f"{_sum()} (increase({selected(counter)}[$__range]))"


def now(gauge: Metric, by: Sequence[str] = ()) -> str:
    """As it is."""
    return f"{_labels('max', by)} ({selected(gauge)})"


def age(timestamp: Metric) -> str:
    """Seconds since."""
    return f"time() - {now(timestamp)}"


def selected(metric: Metric) -> str:
    """The metric's series of the chosen runs."""
    return f'{metric.prometheus_name}{{run=~"$run", grouping=~"$grouping"}}'


def _sum(by: Sequence[str] = ()) -> str:
    return _labels("sum", by)


def _labels(aggregation: str, by: Sequence[str]) -> str:
    return f"{aggregation} by ({', '.join(['run', 'grouping', *by])})"
