"""Every metric of the topology, declared once: dashboards, rules and docs name no others.

A metric is measured of a *subject*, which gives the metric's labels and timestamp. In InfluxDB a subject is a
measurement, its labels are tags and its metrics are fields; in Prometheus a metric's name is
``unskew_<subject>_<metric>[_<unit>][_total]``. All series have the labels ``COMMON`` too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

#: Labels of every series.
COMMON = {
    "run": "the topology run's name: SOURCENAME-sS-wW and the grouping's short name",
    "source_type": "what the messages are",
    "grouping": "the groupingType",
    "workers": "W",
}

#: Unit → the end of Prometheus' name, which has base units; empty for what is counted.
UNITS = {
    "tuples": "",
    "messages": "",
    "keys": "",
    "workers": "",
    "records": "",
    "workers/key": "",
    "tuples/s": "per_second",
    "messages/s": "per_second",
    "percent": "ratio",
    "ratio": "ratio",
    "seconds": "seconds",
    "ms": "seconds",
    "bytes": "bytes",
    "timestamp": "timestamp_seconds",
    "number": "",
    "text": "",
}
#: Unit → how many of it are one of Prometheus' base unit, where that is another one.
OF_BASE = {"percent": 100, "ms": 1000}

Kind = Literal["gauge", "counter", "text"]
Value = float | int | str


@dataclass(frozen=True)
class Subject:
    """A kind of thing that metrics are measured of."""

    name: str  #: InfluxDB's measurement.
    meaning: str  #: In words.
    time: str  #: What the timestamp of its points is; a batch that is replayed has the same one.
    labels: dict[str, str]  #: Label → meaning, beyond ``COMMON``.
    is_ranking: bool = False  #: Whether the samples of one time are the whole: of those before, none is valid any more.


@dataclass(frozen=True)
class Metric:
    """One metric."""

    subject: Subject  #: What the metric is measured of.
    name: str  #: InfluxDB's field.
    unit: str  #: One of ``UNITS``.
    meaning: str  #: In words, with the name that the original or the papers give it, if any.
    #: ``gauge``, a number; ``counter``, a number that never falls, and of ``RUN`` goes on after a restart; ``text``.
    kind: Kind = "gauge"

    @property
    def is_number(self) -> bool:
        """Whether Prometheus and OpenTelemetry get it, too. They get no text: a key would become a label."""
        return self.kind != "text"

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus.

        >>> get_metric("window", "std_dev").prometheus_name
        'unskew_window_std_dev_ratio'
        >>> get_metric("run", "tuples").prometheus_name
        'unskew_run_tuples_total'
        """
        suffix = UNITS[self.unit]
        if self.name.endswith(suffix):
            suffix = ""
        parts = ["unskew", self.subject.name, self.name, suffix]
        return "_".join(filter(None, [*parts, "total" if self.kind == "counter" else ""]))

    def in_prometheus(self, value: float) -> float:
        """A value in Prometheus' base unit.

        >>> get_metric("window", "std_dev").in_prometheus(12.5), get_metric("window", "duration").in_prometheus(60_000)
        (0.125, 60.0)
        """
        return value / OF_BASE.get(self.unit, 1)


@dataclass(frozen=True)
class Sample:
    """Values of a subject's metrics at one time."""

    subject: Subject  #: What the values are measured of.
    time_ms: int  #: Its timestamp (ms since the epoch).
    values: Mapping[str, Value]  #: Metric's name → value.
    labels: Mapping[str, str] = field(default_factory=dict)  #: The subject's own labels, in their order.


_WORKER = {"worker": "0 … W − 1"}
_SOURCE = {"source": "Kafka partition, 0 … S − 1"}
_RANK = {"rank": "1 is the key with the most tuples"}
_STAGE = {"stage": "addBatch (the work), queryPlanning, walCommit, …"}
_INTERNAL = _SOURCE | {"internal": "the number's name; DYNAMIC_KEY has sizes_old, scale_ups, …"}
_KIND = {"kind": "start, restart, scale_up, scale_down, rebalance"}

WINDOW = Subject("window", "A closed window", "the window's end", {})
WORKER = Subject("worker", "A worker in a closed window", "the window's end", _WORKER)
HOT_KEY = Subject(
    "hot_key", "One of the ten keys with the most tuples in a closed window", "the window's end", _RANK, is_ranking=True
)
OPEN_WINDOW = Subject(
    "open_window",
    "The newest window that is open after a micro-batch, as far as it is counted; only with `--emit changes`",
    "the batch's time",
    {},
)
BATCH = Subject("batch", "A micro-batch, once its tasks are done", "the batch's time", {})
TASK = Subject("task", "A worker in a micro-batch", "the batch's time", _WORKER)
RUN = Subject("run", "The run since its checkpoint was made", "the batch's time", {})
STAGE = Subject("stage", "A stage of a micro-batch, as Spark's progress names it", "the batch's time", _STAGE)
QUERY = Subject("query", "The streaming query, after each micro-batch", "the batch's time", {})
SOURCE = Subject("source", "A source after each micro-batch", "the batch's time", _SOURCE)
WORKERS = Subject("workers", "The number of workers", "the batch's time", {})
SCHEME = Subject("scheme", "Numbers that the grouping publishes of itself", "the batch's time", _INTERNAL)
EVENT = Subject("event", "An event that dashboards mark", "the batch's time", _KIND)
REBALANCE = Subject(
    "rebalance", "A plan that moved keys, after the first batch that was routed by it", "the batch's time", {}
)
PLANNER = Subject(
    "planner", "The plan of a batch, if the grouping plans it before it is routed", "the batch's time", {}
)
STATES = Subject("states", "All states of a keyed operator, after a micro-batch", "the batch's time", {})
WORKER_STATES = Subject(
    "worker_states", "The states at a worker and at the merger of its number", "the batch's time", _WORKER
)
WRITE = Subject("write", "A batch that balanced_write has written, as planned", "when it was written", {})
METRICS_OUT = Subject("influxdb", "Points for InfluxDB", "", {})

METRICS = (
    Metric(WINDOW, "std_dev", "percent", "STD_DEV: population standard deviation of the workers' shares of the load"),
    Metric(WINDOW, "dist_cost", "workers/key", "DIST_COST: workers that held a key, mean over the window's keys"),
    Metric(WINDOW, "throughput_ratio", "tuples/s", "THROUGHPUT_RATIO: total tuples ÷ duration"),
    Metric(WINDOW, "total_tuples", "tuples", "TOTAL_COUNT: tuples in closed windows since the start"),
    Metric(WINDOW, "duration", "ms", "DURATION: from the start of the first batch with tuples to the window's end"),
    Metric(WINDOW, "imbalance", "tuples", "the largest load minus the mean load"),
    Metric(WINDOW, "imbalance_fraction", "ratio", "imbalance divided by the window's tuples"),
    Metric(WINDOW, "tuples", "tuples", "tuples in the window"),
    Metric(WINDOW, "counts", "number", "sum of the tuples' counts (or the number of tuples, if they carry no counts)"),
    Metric(WINDOW, "distinct_keys", "keys", "distinct keys in the window"),
    Metric(WINDOW, "idle_workers", "workers", "workers that got no tuple in the window"),
    Metric(WORKER, "tuples", "tuples", "the worker's tuples in the window"),
    Metric(WORKER, "counts", "number", "sum of the counts of the worker's tuples"),
    Metric(WORKER, "distinct_keys", "keys", "distinct keys that the worker held"),
    Metric(WORKER, "share", "percent", "the worker's share of the window's tuples; a W-th is ideal"),
    Metric(WORKER, "closed", "tuples", "the worker's tuples in all closed windows", "counter"),
    Metric(HOT_KEY, "key", "text", "the key", "text"),
    Metric(HOT_KEY, "tuples", "tuples", "the key's tuples in the window"),
    Metric(HOT_KEY, "counts", "number", "sum of the counts of these tuples"),
    Metric(HOT_KEY, "holders", "workers", "workers that held the key"),
    Metric(OPEN_WINDOW, "tuples", "tuples", "tuples in the window"),
    Metric(OPEN_WINDOW, "distinct_keys", "keys", "distinct keys in the window"),
    Metric(OPEN_WINDOW, "hottest", "tuples", "tuples of the key that has the most"),
    Metric(BATCH, "tuples", "tuples", "tuples routed"),
    Metric(BATCH, "std_dev", "percent", "STD_DEV of the batch: the same measure before its window closes"),
    Metric(BATCH, "slowest", "seconds", "time at work of the slowest worker"),
    Metric(BATCH, "mean", "seconds", "mean time at work of all workers"),
    Metric(BATCH, "straggling", "ratio", "slowest worker's time divided by the mean; 1 is ideal"),
    Metric(BATCH, "routing", "seconds", "time spent in the groupings, all sources together"),
    Metric(BATCH, "rejected", "messages", "messages that are invalid for the source type"),
    Metric(BATCH, "late", "tuples", "tuples that came after their window was closed"),
    Metric(TASK, "tuples", "tuples", "the worker's tuples in the batch"),
    Metric(TASK, "busy", "seconds", "time at work of the worker in the batch"),
    Metric(RUN, "tuples", "tuples", "tuples routed, in closed windows or not", "counter"),
    Metric(RUN, "rejected", "messages", "messages rejected", "counter"),
    Metric(RUN, "late", "tuples", "tuples too late for their window", "counter"),
    Metric(RUN, "continuous", "number", "1: the run goes on until somebody stops it; 0: it ends by itself"),
    Metric(RUN, "skipped", "messages", "messages that Kafka removed before the run read them", "counter"),
    Metric(STAGE, "duration", "seconds", "how long the stage took"),
    Metric(QUERY, "batch_number", "number", "number of the newest finished micro-batch"),
    Metric(QUERY, "batch", "timestamp", "when the newest micro-batch was planned"),
    Metric(QUERY, "duration", "seconds", "the micro-batch from trigger to commit"),
    Metric(QUERY, "batches", "number", "micro-batches with messages since the start, if there is a trigger", "counter"),
    Metric(
        QUERY,
        "slow_batches",
        "number",
        "those of them whose results came later than the trigger after they were planned",
        "counter",
    ),
    Metric(QUERY, "input_rate", "messages/s", "messages that arrived per second between the last two triggers"),
    Metric(QUERY, "processed_rate", "messages/s", "messages per second that the last micro-batch processed"),
    Metric(QUERY, "lag", "messages", "messages in the topic that no micro-batch has taken yet"),
    Metric(QUERY, "held_back", "messages", "messages of the lag that an open transaction holds back"),
    Metric(QUERY, "recovery", "seconds", "from the newest restart until no more messages waited than before the stop"),
    Metric(QUERY, "partition_skew", "ratio", "the largest arrival rate of a partition divided by the mean; 1 is even"),
    Metric(QUERY, "state_rows", "records", "rows of open windows in the state store; not given for works with states"),
    Metric(QUERY, "state_memory", "bytes", "memory that the state store uses"),
    Metric(QUERY, "watermark", "timestamp", "windows that end at or before this time are closed"),
    Metric(SOURCE, "offset", "messages", "the offset up to which the source has been counted", "counter"),
    Metric(SOURCE, "lag", "messages", "messages in the partition that no micro-batch has taken yet"),
    Metric(
        SOURCE, "held_back", "messages", "messages from the partition's first open transaction (last stable offset) on"
    ),
    Metric(SOURCE, "lag_velocity", "messages/s", "by how much the lag grew per second, over the last minute"),
    Metric(SOURCE, "arrival_rate", "messages/s", "messages that arrived per second, over the last minute"),
    Metric(SOURCE, "share", "ratio", "the partition's share of the messages that arrived; 1 / S is even"),
    Metric(SOURCE, "hot", "number", "1: its rate is above the mean + 2 standard deviations, and above 1.2 × the mean"),
    Metric(STATES, "finished", "records", "states that left in the batch: their window closed, or their TTL was over"),
    Metric(STATES, "fragments", "records", "states that workers sent to mergers in the batch"),
    Metric(
        STATES, "replication", "workers/key", "fragments per key: what a merge costs, and how many states a key had"
    ),
    Metric(STATES, "merge", "seconds", "time at work of the slowest merger"),
    Metric(WORKER_STATES, "states", "records", "number of states"),
    Metric(WORKER_STATES, "size", "bytes", "size of the states"),
    Metric(REBALANCE, "plan", "number", "the plan's number"),
    Metric(REBALANCE, "keys", "keys", "keys that moved; of a hash ring, only keys whose states moved are counted"),
    Metric(REBALANCE, "state", "bytes", "size of the states that moved with the keys, if workers have states"),
    Metric(REBALANCE, "planning", "seconds", "time that the controller took to make the plan"),
    Metric(REBALANCE, "table", "records", "entries of the routing table, or tokens of the ring"),
    Metric(REBALANCE, "before", "ratio", "slowest over mean worker in the batch that led to the plan: θmax + 1"),
    Metric(REBALANCE, "after", "ratio", "slowest over mean worker in the first batch routed by the plan"),
    Metric(PLANNER, "waves", "number", "waves in which the batch's sources counted, and got their quotas"),
    Metric(PLANNER, "added", "records", "replicas that keys and buckets got in the batch; one if a key moves whole"),
    Metric(PLANNER, "split", "keys", "keys and buckets that have several replicas after the batch"),
    Metric(PLANNER, "waited", "seconds", "longest time that a source waited for its quotas after it had counted"),
    Metric(
        WORKERS,
        "wanted",
        "workers",
        "the least W whose fullest worker would be busy 70 % of the time, by the last minute's arrivals and costs",
    ),
    Metric(SCHEME, "value", "number", "the number's value"),
    Metric(EVENT, "text", "text", "what happened", "text"),
    Metric(WRITE, "files", "records", "files", "counter"),
    Metric(WRITE, "rows", "records", "rows", "counter"),
    Metric(WRITE, "partitions", "records", "partitions of the table that the newest batch has rows of"),
    Metric(WRITE, "divided", "records", "partitions that several tasks write"),
    Metric(WRITE, "writers", "workers", "tasks that write"),
    Metric(WRITE, "fullest", "ratio", "cost of the fullest task divided by the mean; 1 is ideal"),
    Metric(WRITE, "duration", "seconds", "how long the write took"),
    Metric(METRICS_OUT, "written", "records", "points that InfluxDB has taken", "counter"),
    Metric(METRICS_OUT, "lost", "records", "points given up: the queue was full, or InfluxDB refused them", "counter"),
)


def get_metric(subject: str, name: str) -> Metric:
    """The metric of that name.

    Raises ``KeyError`` if there is none.
    """
    for found in METRICS:
        if (found.subject.name, found.name) == (subject, name):
            return found
    raise KeyError(f"{subject}.{name}")


def list_metrics(subject: Subject) -> Iterator[Metric]:
    return (found for found in METRICS if found.subject == subject)
