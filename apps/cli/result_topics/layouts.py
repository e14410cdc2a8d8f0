"""Result topics as tables, with a layout for each kind."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unskew.apps.cli.result_topics.reader import Record
from unskew.apps.metrics.display import draw_worker_bars
from unskew.apps.worker.result_messages import NO_WINDOW
from unskew.shell import escape_controls

#: Window (its start; "" for rejected messages, which have none) → Kafka key → latest record.
Windows: TypeAlias = Mapping[str, Mapping[str, Record]]

_METRICS = {
    "tuples": ("tuples", "{:,}"),
    "distinctKeys": ("keys", "{:,}"),
    "STD_DEV": ("STD_DEV", "{:.2f}"),
    "DIST_COST": ("DIST_COST", "{:.2f}"),
    "THROUGHPUT_RATIO": ("tuples/s", "{:,.0f}"),
    "imbalanceFraction": ("imbalance", "{:.4f}"),
}
_MORE_METRICS = {
    "count": ("count", "{:,}"),
    "imbalance": ("max − mean load", "{:,.1f}"),
    "TOTAL_COUNT": ("TOTAL_COUNT", "{:,}"),
    "DURATION": ("DURATION (ms)", "{:,}"),
    "rejected": ("rejected so far", "{:,}"),
    "late": ("late so far", "{:,}"),
    "skipped": ("gone before they were read", "{:,}"),
}


def format_records(kind: str, windows: Windows, top: int) -> RenderableType:
    """At least one record of a topic of this kind (``reader.KINDS``), as tables.

    ``top`` is the largest number of rows in a list of keys or messages. 0: all.
    """
    if kind == "aggregator":
        return _format_counts(windows, top)
    if kind == "distribution":
        return _format_distribution(windows, top)
    if kind == "results":
        return _format_results(windows, top)
    return _format_rejected([record for records in windows.values() for record in records.values()], top)


def shorten_window(window: str) -> str:
    """A window's start, without an ending that all windows have. It still selects the window."""
    return window.removesuffix("Z").removesuffix(".000")


def _format_counts(windows: Windows, top: int) -> Table:
    table = Table("window (UTC)", "key")
    table.columns[1].overflow = "fold"
    for heading in ("count", "tuples", "workers"):
        table.add_column(heading, justify="right")
    cut = 0
    for window in sorted(windows):
        # The mark of a closed window has the window alone as its Kafka key.
        results = [record.parse() for key, record in windows[window].items() if key != window]
        results.sort(key=lambda result: (-result["fields"]["count"], result["key"]))
        shown = _take_first(results, top)
        cut += len(results) - len(shown)
        is_open = window not in windows[window] and any("batch" in result for result in results)
        labels = [shorten_window(window), "(open)" if is_open else ""]
        for at, result in enumerate(shown):
            numbers = (f"{result['fields'][name]:,}" for name in ("count", "tuples", "workers"))
            label = " ".join(labels) if len(shown) == 1 else labels[at] if at < len(labels) else ""
            table.add_row(label.strip(), Text(escape_controls(result["key"])), *numbers)
        table.add_section()
    table.caption = _mention_more(cut)
    return table


def _format_results(windows: Windows, top: int) -> Group:
    """A table for each window: a keyed operator's results, by key."""
    parts: list[RenderableType] = []
    for window in sorted(windows):
        results = sorted((record.parse() for record in windows[window].values()), key=itemgetter("key"))
        if window != NO_WINDOW:
            parts.append(Text(f"{shorten_window(window)} (UTC)"))
        parts.append(_format_fields(None, ["key"], results, top))
    return Group(*parts)


def _format_distribution(windows: Windows, top: int) -> RenderableType:
    latest = max(windows)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for record in windows[latest].values():
        result = record.parse()
        by_kind.setdefault(result["key"], []).append(result)
    parts: list[RenderableType] = []
    if len(windows) > 1:
        parts.append(_format_windows(windows))
    below = [_format_metrics(event, latest) for event in by_kind.get("EVENT_INFO", [])]
    workers = sorted(by_kind.get("WORKER", []), key=lambda result: int(result["tags"]["worker"]))
    if workers:
        below.append(_format_workers(workers))
    parts.append(_place_beside(below))
    hottest = sorted(by_kind.get("HOT_KEY", []), key=lambda result: result["fields"].pop("rank"))
    old = sorted(by_kind.get("OLD_SPACE", []), key=lambda result: -result["fields"].get("frequency", 0))
    lists = [_format_fields("hottest keys", ["key"], hottest, top)] if hottest else []
    lists += [_format_fields("old space of each source's router", ["key", "source"], old, top)] if old else []
    parts.append(_place_beside(lists))
    return Group(*parts)


def _format_windows(windows: Windows) -> Table:
    table = Table("window (UTC)", box=None, padding=(0, 2, 0, 0))
    table.columns[0].no_wrap = True
    for heading, _ in _METRICS.values():
        table.add_column(heading, justify="right")
    for window in sorted(windows):
        for result in (record.parse() for key, record in windows[window].items() if key.endswith("/EVENT_INFO")):
            table.add_row(
                shorten_window(window), *(form.format(result["fields"][name]) for name, (_, form) in _METRICS.items())
            )
    return table


def _format_metrics(event: dict[str, Any], window: str) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row("window (UTC)", shorten_window(window))
    table.add_row("grouping", event["tags"]["grouping"])
    for name, (heading, form) in (_METRICS | _MORE_METRICS).items():
        table.add_row(heading, form.format(event["fields"][name]))
    return table


def _format_workers(workers: Sequence[dict[str, Any]]) -> Table:
    fields = [result["fields"] for result in workers]
    notes = [
        (heading, [f"{f[name]:,}" for f in fields])
        for heading, name in (("tuples", "tuples"), ("keys", "distinctKeys"))
    ]
    return draw_worker_bars([f["tuples"] for f in fields], workers[0]["tags"]["grouping"], notes)


def _format_fields(title: str | None, tags: Sequence[str], results: Sequence[dict[str, Any]], top: int) -> Table:
    """A row for each result: the given tags, then all fields that any result has."""
    found = [result["fields"] | {name: result[name] for name in ("error",) if name in result} for result in results]
    names = list(dict.fromkeys(name for fields in found for name in fields))
    table = Table(*tags, box=None, pad_edge=False, title=title, title_justify="left")
    table.columns[0].overflow = "fold"
    for name in names:
        table.add_column(name, justify="right")
    for result, fields in zip(_take_first(results, top), found, strict=False):
        table.add_row(
            *(Text(escape_controls(result["tags"][tag])) for tag in tags),
            *(_format_value(fields.get(name, "")) for name in names),
        )
    table.caption = _mention_more(len(results) - len(_take_first(results, top)))
    return table


def _format_value(value: Any) -> RenderableType:
    if isinstance(value, bool):  # which is an int, too
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int | float) else Text(escape_controls(str(value)))


def _format_rejected(records: Sequence[Record], top: int) -> Table:
    table = Table("reason", "place", "value")
    table.columns[1].overflow = "fold"
    table.columns[2].overflow = "ellipsis"
    table.columns[2].no_wrap = True
    rejected = sorted((r.parse() for r in records), key=itemgetter("timestamp", "partition", "offset"))
    shown = rejected[-top:] if top else rejected
    for message in shown:
        value = message.get("value")
        encoded = message.get("valueBase64")
        text = value if value is not None else f"(base64) {encoded}" if encoded is not None else "(none)"
        if "valueLength" in message:
            text = f"(the first of {message['valueLength']:,} bytes) {text}"
        address = f"{message['topic']}-{message['partition']}-{message['offset']}"
        table.add_row(Text(escape_controls(message["reason"])), address, Text(escape_controls(text)))
    table.caption = (
        f"the last {len(shown):,} of {len(rejected):,} (all: --top 0)" if len(shown) < len(rejected) else None
    )
    return table


def _take_first(results: Sequence[Any], top: int) -> Sequence[Any]:
    return results[:top] if top else results


def _mention_more(cut: int) -> str | None:
    return f"and {cut:,} more (all: --top 0)" if cut else None


def _place_beside(parts: Sequence[RenderableType]) -> Columns:
    """The parts side by side if the terminal is wide enough; an empty line above."""
    return Columns([Group("", part) for part in parts], padding=(0, 4))
