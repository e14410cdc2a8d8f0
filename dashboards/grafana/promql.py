"""Queries of Prometheus: gauges as they are now, counters as rates."""

from collections.abc import Sequence
from typing import Any

from unskew.apps.metrics.catalogue import Metric

#: The data source, behind a variable: a dashboard can be pointed at another Prometheus.
PROMETHEUS = {"type": "prometheus", "uid": "${prometheus}"}

#: A run's name in a legend.
LEGEND = "{{grouping}} · {{stream}}"

# A run's name without its grouping, which stands first in the legend. A watched query's name has none.
_NAMED = 'label_replace({}, "stream", "$1$2", "run", "(.+-w[0-9]+)-[a-z]+|(.+)")'
_SELECTED = ('run=~"$run"', 'grouping=~"$grouping"')


def query(expression: str, by: Sequence[str] = ()) -> dict[str, Any]:
    """A query as a panel has it: a series for each run and each value of the labels ``by``."""
    legend = " · ".join([LEGEND, *(f"{label} {{{{{label}}}}}" for label in by)])
    return {"expr": _NAMED.format(expression), "legendFormat": legend, "range": True, "refId": "A"}


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


def increase(counter: Metric, by: Sequence[str] = ()) -> str:
    """The increase of a counter in the time range."""
    return f"{_sum(by)} (increase({select_series(counter)}[$__range]))"


def spread(load: Metric, of_batch: Metric) -> str:
    """STD_DEV (%) of the workers' loads in the time range, which are a counter; if it stays, of those in batches.

    The counter misses no window, however seldom the scrapes are. An increase is extrapolated, but those of all workers
    alike.
    """
    counted, seen = increase(load, ["worker"]), f"avg_over_time({select_series(of_batch)}[$__range])"
    return " or ".join(f"100 * {_std_dev(loads)}" for loads in (counted, seen))


def weighted_mean(gauge: Metric, weight: Metric, stamp: Metric) -> str:
    """The mean of a gauge in the time range with the weights of another one. Where there are no weights they are equal.

    Each window or batch that a scrape has seen counts once: ``stamp`` is a gauge that is another one in each.
    """
    weighted = _mean_of_seen(f"{now(gauge)} * {now(weight)}", stamp)
    return f"{weighted} / {_mean_of_seen(now(weight), stamp)} or {_mean_of_seen(now(gauge), stamp)}"


def ratio(above: Metric, below: Metric, load: Metric, stamp: Metric) -> str:
    """The sum of a gauge over that of another one, of the batches in the time range that a scrape has seen.

    Batches without a load don't count: in these, the gauges are those of the batch before.
    """
    return " / ".join(_mean_of_seen(f"{now(each)} and {now(load)} > 0", stamp) for each in (above, below))


def share(gauge: Metric, whole: Metric, by: Sequence[str]) -> str:
    """What part of another gauge it is, for each value of the labels ``by``."""
    return f"{now(gauge, by)} / on (run, grouping) group_left () {now(whole)}"


def now(gauge: Metric, by: Sequence[str] = (), *where: str) -> str:
    """A gauge as it is."""
    return f"{_labels('max', by)} ({select_series(gauge, *where)})"


def total(gauge: Metric, by: Sequence[str]) -> str:
    """The sum of a gauge's series as they are, for each value of the labels ``by``."""
    return f"{_sum(by)} ({select_series(gauge)})"


def appear(gauge: Metric) -> str:
    """A gauge at the moment at which it appears."""
    return f"{now(gauge)} unless {_before('max', gauge)}"


def grow(gauge: Metric, *where: str) -> str:
    """A gauge's sum, at each moment at which it is higher than the moment before."""
    return f"{_sum()} ({select_series(gauge, *where)}) > {_before('sum', gauge, *where)}"


def busiest(load: Metric) -> str:
    """The load of the busiest of a run's workers in the batches of five minutes, divided by their mean."""
    loads = _recent(load, "5m")
    return f"{_labels('max')} ({loads}) / {_labels('avg')} ({loads})"


def recent_spread(load: Metric) -> str:
    """STD_DEV, as a part of all, of the workers' loads in the batches of a minute."""
    return _std_dev(_recent(load, "1m"))


def recent_share(load: Metric, *where: str) -> str:
    """Each worker's share of the load in the batches of a minute."""
    loads = _recent(load, "1m")
    own = _recent(load, "1m", *where)
    return f"{_labels('max', ['worker'])} ({own}) / on (run, grouping) group_left () ({_sum()} ({loads}) > 0)"


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


def _before(aggregation: str, gauge: Metric, *where: str) -> str:
    """A gauge as it was at the moment before, which is one step of the query ago."""
    return f"{_labels(aggregation)} ({select_series(gauge, *where)} offset $__interval)"


def _mean_of_seen(expression: str, stamp: Metric) -> str:
    """The mean in the time range of an expression's values at the moments at which ``stamp`` has changed."""
    changed = f"{expression} unless {now(stamp)} == {_before('max', stamp)}"
    return f"avg_over_time(({changed})[$__range:$__interval])"


def _std_dev(loads: str) -> str:
    """STD_DEV of the workers' loads, as a part of all. There is none without a load."""
    return f"{_labels('stddev')} ({loads}) / ({_sum()} ({loads}) > 0)"


def _recent(gauge: Metric, time: str, *where: str) -> str:
    """A gauge's mean over this time. It ends with the gauge."""
    chosen = select_series(gauge, *where)
    return f"avg_over_time({chosen}[{time}]) and {chosen}"


def _per_second(counter: Metric) -> str:
    return f"{_sum()} (rate({select_series(counter)}[5m]))"


def _sum(by: Sequence[str] = ()) -> str:
    return _labels("sum", by)


def _labels(aggregation: str, by: Sequence[str] = ()) -> str:
    return f"{aggregation} by ({', '.join(['run', 'grouping', *by])})"
