"""Queries of InfluxDB, in Flux.

Grafana replaces ``v.…`` by the time range, the period that a pixel stands for and the data source's bucket, and
``${run:regex}`` by the selected runs. A query ends with one table a series, labelled ``series``; or, for tables and bar
charts, with a single table. Grafana takes any result with a ``_value`` and a time for a series, so a table has neither.
First the queries that answer series, then those that answer a table.
"""

from collections.abc import Mapping, Sequence

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Metric

#: The data source, behind a variable: a dashboard can be pointed at another InfluxDB.
INFLUXDB = {"type": "influxdb", "uid": "${influxdb}"}

#: A run's name in a legend, such as "KEY · zipf-s4-w10". The grouping at its beginning decides the colour.
NAMED = 'series: r.grouping + " · " + regexp.replaceAllString(r: /-[a-z]+$/, v: r.run, t: "")'
#: The variables that select runs, and with them workers.
RUN = ("run", "grouping")
WITH_WORKER = (*RUN, "worker")
_HOT = tuple(catalogue.get_metric("hot_key", name) for name in ("key", "tuples", "holders"))


def query(text: str) -> dict[str, str]:
    """A query as a panel has it, with the packages that it uses imported."""
    used = [name for name in ("math", "regexp") if f"{name}." in text]
    return {"query": "".join(f'import "{name}"\n' for name in used) + text, "refId": "A"}


def read(*metrics: Metric, variables: Sequence[str] = RUN, where: str = "") -> str:
    """The points of one subject's metrics, of the selected runs in the time range.

    The variables select among the tags of their names. ``where`` is a further condition on ``r``.
    """
    (measurement,) = {metric.subject.name for metric in metrics}
    fields = " or ".join(f'r._field == "{metric.name}"' for metric in metrics)
    picked = " and ".join([*(f"r.{name} =~ /^${{{name}:regex}}$/" for name in variables), *filter(None, [where])])
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
    metric: Metric, by: Sequence[str] = (), fn: str = "mean", variables: Sequence[str] = RUN, where: str = ""
) -> str:
    """A metric in the course of time, ``fn`` of each period; a series for each run and each value of ``by``."""
    every = f"\n  |> aggregateWindow(every: v.windowPeriod, fn: {fn}, createEmpty: false)"
    return read(metric, variables=variables, where=where) + every + series(by=by)


def over_range(metric: Metric, fn: str) -> str:
    """One number a run: ``fn`` of the whole time range."""
    aggregated = f'\n  |> group(columns: {columns(RUN)})\n  |> sort(columns: ["_time"])\n  |> {fn}()'
    return read(metric) + aggregated + series("v.timeRangeStop")


def ratio(above: Metric, below: Metric, factor: float = 1) -> str:
    """One number a run: the sum of one metric over the sum of another of the same subject."""
    return _quotient(above, below, f"r.{above.name} * {factor:.1f}")


def weighted_mean(metric: Metric, weight: Metric) -> str:
    """One number a run: the mean of a metric, each point with the weight that another metric gives it.

    The stream's last window may have three tuples, and counts less than one of a million.
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
    """A list of columns, in Flux."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def by_worker(metric: Metric, fn: str = "sum") -> str:
    """A row a worker, a column a run: ``fn`` of the metric in the time range."""
    return _by(metric, "worker", fn, "int(v: r.worker)", WITH_WORKER)


def by_stage(metric: Metric, fn: str = "mean") -> str:
    """A row a stage of a batch, a column a run."""
    return _by(metric, "stage", fn, "-r._value", RUN)


def share_by_worker(metric: Metric, variables: Sequence[str] = RUN) -> str:
    """A row a worker, a column a run: the worker's part (%) of the metric's sum over all workers."""
    return (
        f"one = {read(metric, variables=variables)}\n  |> group(columns: {columns([*RUN, 'worker'])})\n  |> sum()\n"
        f"all = {read(metric)}\n  |> group(columns: {columns(RUN)})\n  |> sum()\n"
        f"join(tables: {{one: one, all: all}}, on: {columns(RUN)})\n"
        "  |> filter(fn: (r) => r._value_all > 0.0)\n"
        "  |> map(fn: (r) => ({r with _value: 100.0 * r._value_one / r._value_all}))"
    ) + _side_by_side("worker", "int(v: r.worker)")


def hottest_keys(most: int) -> str:
    """A row a key and run, the hottest first: the key's tuples while it was hot, its most workers, its windows."""
    return (
        read(*_HOT)
        + '\n  |> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
        + f"\n  |> group(columns: {columns([*RUN, 'key'])})"
        + "\n  |> reduce(identity: {tuples: 0.0, holders: 0.0, windows: 0}, fn: (r, accumulator) => ({"
        + "tuples: accumulator.tuples + r.tuples, windows: accumulator.windows + 1, "
        + "holders: if r.holders > accumulator.holders then r.holders else accumulator.holders}))"
        + f"\n  |> map(fn: (r) => ({{{NAMED}, key: r.key, tuples: r.tuples, workers: r.holders, windows: r.windows}}))"
        + "\n  |> group()"
        + '\n  |> sort(columns: ["tuples"], desc: true)'
        + f"\n  |> limit(n: {most})"
    )


def workers_of_hottest(most: int) -> str:
    """A row a hot key, a column a run: the most workers that had the key in a window."""
    return (
        hottest_keys(4 * most)
        + '\n  |> pivot(rowKey: ["key"], columnKey: ["series"], valueColumn: "workers")'
        + "\n  |> group()"
        + f"\n  |> limit(n: {most})"
    )


def internals(metric: Metric) -> str:
    """A row an internal of a scheme, a column a run: its newest value, all sources together."""
    return (
        read(metric)
        + f"\n  |> last()\n  |> group(columns: {columns([*RUN, 'internal'])})\n  |> sum()"
        + _side_by_side("internal", "r.internal")
    )


def summary(numbers: Mapping[str, str]) -> str:
    """A row a run, a column for each of the numbers: its heading → a query that answers one number a run."""
    named = [
        f'n{at} = {query}\n  |> map(fn: (r) => ({{series: r.series, what: "{heading}", _value: r._value}}))\n'
        for at, (heading, query) in enumerate(numbers.items())
    ]
    tables = ", ".join(f"n{at}" for at in range(len(numbers)))
    return (
        "".join(named)
        + f"union(tables: [{tables}])\n  |> group()"
        + '\n  |> pivot(rowKey: ["series"], columnKey: ["what"], valueColumn: "_value")'
        + "\n  |> group()"
        + '\n  |> sort(columns: ["series"])'
    )


def read_events(kinds: Sequence[str]) -> str:
    """A row an event of those kinds, as Grafana's annotations want it."""
    where = "(" + " or ".join(f'r.kind == "{kind}"' for kind in kinds) + ")"
    return (
        read(catalogue.get_metric("event", "text"), where=where)
        + f"\n  |> map(fn: (r) => ({{time: r._time, text: r._value, tags: r.kind, {NAMED}}}))"
        + "\n  |> map(fn: (r) => ({time: r.time, title: r.series, text: r.text, tags: r.tags}))"
        + "\n  |> group()"
        + '\n  |> sort(columns: ["time"], desc: true)'
    )


# A run's numbers, for all dashboards that show them.
STD_DEV = spread(catalogue.get_metric("worker", "tuples"))
DIST_COST = weighted_mean(catalogue.get_metric("window", "dist_cost"), catalogue.get_metric("window", "distinct_keys"))
STRAGGLING = ratio(catalogue.get_metric("batch", "slowest"), catalogue.get_metric("batch", "mean"))
THROUGHPUT_IS = (
    "Tuples in closed windows per second, from the start of the run's first batch to the end of the newest closed "
    "window. The tuples/s after the first batch, which a run, unskew compare and the demo print, go from that batch's "
    "end to the end of the last one: they are higher in a short run."
)
THROUGHPUT = over_range(catalogue.get_metric("window", "throughput_ratio"), "last")


def _by(metric: Metric, tag: str, fn: str, order: str, variables: Sequence[str]) -> str:
    aggregated = f"\n  |> group(columns: {columns([*RUN, tag])})\n  |> {fn}()"
    return read(metric, variables=variables) + aggregated + _side_by_side(tag, order)


def _side_by_side(tag: str, order: str) -> str:
    return (
        f"\n  |> map(fn: (r) => ({{{tag}: r.{tag}, order: {order}, {NAMED}, _value: r._value}}))"
        "\n  |> group()"
        '\n  |> sort(columns: ["order"])'
        f'\n  |> pivot(rowKey: ["{tag}"], columnKey: ["series"], valueColumn: "_value")'
        "\n  |> group()"
    )
