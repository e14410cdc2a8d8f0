"""Queries of InfluxDB, in Flux.

Grafana replaces ``v.…`` by the time range, the period that a pixel stands for and the data source's bucket, and
``${run:regex}`` by what is chosen. A query ends with one table a series, labelled ``series``; or, for tables and bar
charts, with a single table. Flux takes whatever has ``_value`` and a time for a series, so a table has neither.
"""

from collections.abc import Sequence

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef

from unskew.apps.monitoring.catalogue import Metric
from unskew.dashboards.grafana.sources import INFLUXDB

#: How a run is called in a legend: "KEY · zipf-s4-w10". Colours go by its beginning.
NAMED = 'series: r.grouping + " · " + regexp.replaceAllString(r: /-[a-z]+$/, v: r.run, t: "")'
RUN = ("run", "grouping")


class FluxQuery(Dataquery):
    """A query as the InfluxDB data source keeps it in a panel; the SDK has none."""

    def __init__(self, query: str, ref_id: str = "A", datasource: DataSourceRef = INFLUXDB) -> None:
        self.query = query
        self.ref_id = ref_id
        self.datasource = datasource

    def to_json(self) -> dict[str, object]:
        """As the SDK's encoder wants it."""
        return {"datasource": self.datasource, "query": self.query, "refId": self.ref_id}


class Flux(Builder[FluxQuery]):
    """Builds a ``FluxQuery`` from its text."""

    def __init__(self, query: str) -> None:
        self.query = query

    def build(self) -> FluxQuery:
        """The query, with the packages that it uses imported."""
        used = [name for name in ("math", "regexp") if f"{name}." in self.query]
        return FluxQuery("".join(f'import "{name}"\n' for name in used) + self.query)


def read(*metrics: Metric, chosen: Sequence[str] = RUN, where: str = "") -> str:
    """The points of one subject's metrics, of the chosen runs in the time range.

    Parameters
    ----------
    *metrics : Metric
        All of one subject.
    chosen : sequence of str
        Variables that choose among the tags of their names.
    where : str
        A further condition on ``r``.

    """
    (measurement,) = {metric.subject.name for metric in metrics}
    fields = " or ".join(f'r._field == "{metric.name}"' for metric in metrics)
    picked = " and ".join([*(f"r.{name} =~ /^${{{name}:regex}}$/" for name in chosen), *filter(None, [where])])
    return (
        "from(bucket: v.defaultBucket)\n"
        "  |> range(start: v.timeRangeStart, stop: v.timeRangeStop)\n"
        f'  |> filter(fn: (r) => r._measurement == "{measurement}" and ({fields}))\n'
        f"  |> filter(fn: (r) => {picked})"
    )


def series(time: str = "r._time", by: Sequence[str] = (), value: str = "r._value") -> str:
    """The last steps of a query: a table for each run, or for each run and tag in ``by``."""
    labels = [*(f"{tag}: r.{tag}" for tag in by), NAMED]
    return (
        f"\n  |> map(fn: (r) => ({{_time: {time}, _value: {value}, {', '.join(labels)}}}))"
        f"\n  |> group(columns: {columns(['series', *by])})"
    )


def over_time(
    metric: Metric, by: Sequence[str] = (), fn: str = "mean", chosen: Sequence[str] = RUN, where: str = ""
) -> str:
    """A metric in the course of time, ``fn`` of each period; a series for each run and each value of ``by``."""
    every = f"\n  |> aggregateWindow(every: v.windowPeriod, fn: {fn}, createEmpty: false)"
    return read(metric, chosen=chosen, where=where) + every + series(by=by)


def over_range(metric: Metric, fn: str) -> str:
    """One number a run: ``fn`` of the whole time range."""
    aggregated = f'\n  |> group(columns: {columns(RUN)})\n  |> sort(columns: ["_time"])\n  |> {fn}()'
    return read(metric) + aggregated + series("v.timeRangeStop")


def ratio(above: Metric, below: Metric, factor: float = 1) -> str:
    """One number a run: the sum of one metric over the sum of another of the same subject."""
    return _quotient(above, below, f"r.{above.name} * {factor:.1f}")


def weighted(metric: Metric, weight: Metric) -> str:
    """One number a run: the mean of a metric, each point with the weight that another metric gives it.

    A window of three tuples, as a stream's last one may be, says less than one of a million.
    """
    return _quotient(metric, weight, f"r.{metric.name} * r.{weight.name}")


def spread(load: Metric) -> str:
    """One number a run: STD_DEV (%) of the workers' loads in the whole time range."""
    return (
        read(load)
        + f"\n  |> group(columns: {columns([*RUN, 'worker'])})"
        + "\n  |> sum()"
        + f"\n  |> group(columns: {columns(RUN)})"
        + "\n  |> reduce(identity: {n: 0.0, sum: 0.0, squares: 0.0}, fn: (r, accumulator) => ({"
        + "n: accumulator.n + 1.0, sum: accumulator.sum + r._value, "
        + "squares: accumulator.squares + r._value * r._value}))"
        + "\n  |> filter(fn: (r) => r.sum > 0.0)"
        + series(
            "v.timeRangeStop",
            value="100.0 * math.sqrt(x: math.mMax(x: 0.0, y: r.squares * r.n - r.sum * r.sum)) / (r.n * r.sum)",
        )
    )


def _quotient(metric: Metric, below: Metric, above: str) -> str:
    return (
        read(metric, below)
        + '\n  |> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
        + f"\n  |> filter(fn: (r) => exists r.{metric.name} and exists r.{below.name})"
        + f"\n  |> group(columns: {columns(RUN)})"
        + "\n  |> reduce(identity: {above: 0.0, below: 0.0}, fn: (r, accumulator) => ({"
        + f"above: accumulator.above + {above}, below: accumulator.below + r.{below.name}}}))"
        + "\n  |> filter(fn: (r) => r.below > 0.0)"
        + series("v.timeRangeStop", value="r.above / r.below")
    )


def columns(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
