"""Queries of InfluxDB whose answer is one table: what tables and bar charts show."""

from collections.abc import Mapping, Sequence

from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.catalogue import Metric
from unskew.dashboards.grafana.flux import NAMED, RUN, columns, read

_HOT = tuple(catalogue.metric("hot_key", name) for name in ("key", "tuples", "holders"))

#: What chooses among workers.
WITH_WORKER = (*RUN, "worker")


def by_worker(metric: Metric, fn: str = "sum") -> str:
    """A row a worker, a column a run: ``fn`` of the metric in the time range."""
    return _by(metric, "worker", fn, "int(v: r.worker)", WITH_WORKER)


def by_stage(metric: Metric, fn: str = "mean") -> str:
    """A row a stage of a batch, a column a run."""
    return _by(metric, "stage", fn, "-r._value", RUN)


def share_by_worker(metric: Metric, chosen: Sequence[str] = RUN) -> str:
    """A row a worker, a column a run: the worker's part (%) of the metric's sum over all workers."""
    return (
        f"one = {read(metric, chosen=chosen)}\n  |> group(columns: {columns([*RUN, 'worker'])})\n  |> sum()\n"
        f"all = {read(metric)}\n  |> group(columns: {columns(RUN)})\n  |> sum()\n"
        f"join(tables: {{one: one, all: all}}, on: {columns(RUN)})\n"
        "  |> filter(fn: (r) => r._value_all > 0.0)\n"
        "  |> map(fn: (r) => ({r with _value: 100.0 * r._value_one / r._value_all}))"
    ) + _side_by_side("worker", "int(v: r.worker)")


def hottest(most: int) -> str:
    """A row a key and run, the hottest first: its tuples while it was hot, how many workers held it, how long."""
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
    """A row a hot key, a column a run: how many workers held the key."""
    return (
        hottest(4 * most)
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


def happened(kinds: Sequence[str]) -> str:
    """A row an event of those kinds, as Grafana's annotations want it."""
    where = "(" + " or ".join(f'r.kind == "{kind}"' for kind in kinds) + ")"
    return (
        read(catalogue.metric("event", "text"), where=where)
        + f"\n  |> map(fn: (r) => ({{time: r._time, text: r._value, tags: r.kind, {NAMED}}}))"
        + "\n  |> map(fn: (r) => ({time: r.time, title: r.series, text: r.text, tags: r.tags}))"
        + "\n  |> group()"
        + '\n  |> sort(columns: ["time"], desc: true)'
    )


def _by(metric: Metric, tag: str, fn: str, order: str, chosen: Sequence[str]) -> str:
    aggregated = f"\n  |> group(columns: {columns([*RUN, tag])})\n  |> {fn}()"
    return read(metric, chosen=chosen) + aggregated + _side_by_side(tag, order)


def _side_by_side(tag: str, order: str) -> str:
    return (
        f"\n  |> map(fn: (r) => ({{{tag}: r.{tag}, order: {order}, {NAMED}, _value: r._value}}))"
        "\n  |> group()"
        '\n  |> sort(columns: ["order"])'
        f'\n  |> pivot(rowKey: ["{tag}"], columnKey: ["series"], valueColumn: "_value")'
        "\n  |> group()"
    )
