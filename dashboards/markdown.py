"""The list of metrics as Markdown."""

from itertools import groupby

from unskew.apps.monitoring.catalogue import COMMON, METRICS, Metric

_HEAD = "| field | unit | meaning | in Prometheus |\n| --- | --- | --- | --- |\n"


def metric_list() -> str:
    """A section for each subject: what it is, its labels, and a table of its metrics."""
    common = "\n".join(f"* `{label}`: {meaning}" for label, meaning in COMMON.items())
    parts = [f"Every series has the labels\n\n{common}\n"]
    for subject, of_it in groupby(METRICS, key=lambda metric: metric.subject):
        time = f" Timestamp: {subject.time}." if subject.time else " In Prometheus only."
        parts.append(f"### `{subject.name}`\n\n{subject.meaning}.{time}\n")
        if subject.labels:
            parts.append("\n".join(f"* label `{label}`: {meaning}" for label, meaning in subject.labels.items()) + "\n")
        parts.append(
            "| field | unit | meaning | in Prometheus |\n| --- | --- | --- | --- |\n" + "".join(map(_row, of_it))
        )
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    kind = " (counter)" if metric.kind == "counter" else ""
    prometheus = f"`{metric.prometheus_name}`" if metric.subject.prometheus else "–"
    return f"| `{metric.name}` | {metric.unit}{kind} | {metric.meaning} | {prometheus} |\n"
