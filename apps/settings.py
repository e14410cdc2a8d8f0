"""The settings of a run of the topology.

`--help` shows them, and shouldn't wait for pyspark and numba. So modules that import these packages are
imported where they are used.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt
from typing_extensions import Doc

from unskew.durations import LONGEST, parse_slide, too_long_error
from unskew.errors import UsageError, suggest_names
from unskew.kafka.connection import Connection
from unskew.kafka.topics import LONGEST_TOPIC
from unskew.option_style import METRICS, SPARK, STREAM, OptionStyle

if TYPE_CHECKING:
    from unskew.apps.checkpoint.location import Location
    from unskew.apps.operators.interface import KeyedOperator
    from unskew.apps.worker.worker import Work
    from unskew.grouping.simulated_cost import Cost

MODES = ("LOCAL", "CLUSTER")
TIMES = ("batch", "event")
#: The units of event times that are numbers.
TIME_UNITS = ("s", "ms", "us", "ns")
#: What a run does about messages that Kafka removed before they were counted.
DATA_LOSS = ("fail", "skip")
#: How often a record of results may be there: a batch that runs again publishes the same again, or nothing twice.
DELIVERIES = ("at-least-once", "exactly-once")
#: When results are published: when their window closes, or whenever they change.
EMITS = ("final", "changes")
#: What a run does if the work raises on a message's tuple: it ends, or rejects the message.
WORK_ERRORS = ("fail", "reject")
#: Settings in seconds, which Python code may give as any duration.
DURATIONS = ("window", "slide", "lateness", "trigger", "run_time", "max_ahead", "ttl")


_MOST_NUMBERS = 100_000  # that A..B may stand for

# A full batch takes at least so long (s), unless the user limits its tuples.
_FULL_BATCH = 1.0
# Most tuples a batch, where they cost nothing: so many that a batch's fixed cost (a second on two cores) is small.
_FREE_BATCH = 5_000_000
# Where tuples cost something, a batch has as many as W workers side by side execute in this time.
_COSTLY_BATCH = 1.0  # s


@dataclass(frozen=True)
class Settings:
    """The settings of one run, each declared once for the command line, for comparisons and for Python.

    The first seven are the original's arguments, in its order. A setting's text and its bounds are in its annotation.
    The settings below have no text there. They are no options of a command, or have one that is declared elsewhere.

    """

    mode: Annotated[str, Doc("LOCAL (Spark in this process) or CLUSTER (on --master)."), OptionStyle(compared=False)]
    source_type: Annotated[str, Doc("Source type of the messages: COUNTRY_SKEW_R80, COLUMN, …")]
    grouping: Annotated[
        str,
        Doc("How tuples are routed: SHUFFLE, KEY, PARTIAL_KEY, DYNAMIC_KEY, …"),
        OptionStyle(metavar="GROUPING_TYPE", compared=False),
    ]
    topic: Annotated[str, Doc("The Kafka topic."), OptionStyle(metavar="SOURCE_NAME")]
    sources: Annotated[
        int, Gt(0), Doc("Number of sources S: the topic's partitions."), OptionStyle(metavar="NUM_SPOUTS")
    ]
    workers: Annotated[int, Gt(0), Doc("Number of workers W."), OptionStyle(metavar="NUM_WORKERS")]
    speed: Annotated[str, Doc("xN: a worker executes N tuples per process duration. x0: tuples cost nothing.")]
    connection: Connection  #: The Kafka cluster.
    #: The location of the run's progress: a path, s3a://bucket/path, hdfs://host:port/path. A run with the same
    #: checkpoint resumes.
    checkpoint: str
    process_ms: Annotated[
        float, Ge(0), Doc("Simulated cost of a tuple at speed x1 (ms)."), OptionStyle(name="process-duration")
    ] = 1.0
    key_costs: Annotated[
        str | None,
        Doc("Multiples of that cost, one for each class of keys: 1,10 or 1..64."),
        OptionStyle(metavar="N,…"),
    ] = None
    window: Annotated[float, Gt(0), Doc("Length of a window (s)."), OptionStyle(STREAM)] = 15.0
    slide: Annotated[
        float | None,
        Gt(0),
        Doc("Sliding windows: a window of --window seconds begins at this interval, in s (default: --window)."),
        OptionStyle(STREAM),
    ] = None
    emit: Annotated[
        str,
        Doc(
            "When counts are published: 'final', once, when their window closes; or 'changes', a key's running total "
            "after each batch in which it grew, and a mark when the window closes."
        ),
        OptionStyle(STREAM),
    ] = "final"
    time: Annotated[
        str | None,
        Doc("Windows by 'batch' time (the default: no tuple is late) or 'event' time (Kafka's, or a field's)."),
        OptionStyle(STREAM),
    ] = None
    lateness: Annotated[float, Ge(0), Doc("Event time: how late a tuple may be (s)."), OptionStyle(STREAM)] = 10.0
    trigger: Annotated[
        float, Ge(0), Doc("Shortest time between batches (s), unless a backlog is left."), OptionStyle(SPARK)
    ] = 1.0
    run_time: Annotated[
        float | None, Gt(0), Doc("Stop after this many s (default: never)."), OptionStyle(part_of="--until")
    ] = None
    until_drained: Annotated[
        bool,
        Doc("Stop when all messages published so far are counted and their windows published."),
        OptionStyle(part_of="--until"),
    ] = False
    starting_offsets: Annotated[
        str,
        Doc("Where to start without a checkpoint: earliest, latest, or Spark's JSON."),
        OptionStyle(STREAM, compared=False),
    ] = "earliest"
    create_topic: Annotated[
        bool,
        Doc("Create the topic if it is missing. Datasets' topics are always created, COLUMN's are not."),
        OptionStyle(STREAM, compared=False),
    ] = False
    max_ahead: Annotated[
        float,
        Ge(0),
        Doc("Event time: reject messages further ahead of the batch's time than this (s)."),
        OptionStyle(STREAM),
    ] = 3600.0
    on_data_loss: Annotated[
        str,
        Doc("If Kafka has removed messages before they were read: 'fail', or 'skip' and count them."),
        OptionStyle(STREAM),
    ] = "fail"
    max_tuples: Annotated[
        int | None,
        Gt(0),
        Doc("Maximum tuples in a batch (default: 1 s of work; 5 M if tuples cost nothing)."),
        OptionStyle(STREAM),
    ] = None
    delivery: Annotated[
        str,
        Doc("How results are published: 'at-least-once', or 'exactly-once', by transactions of Kafka."),
        OptionStyle(STREAM),
    ] = "at-least-once"
    master: Annotated[str | None, Doc("Spark's master URL (default in LOCAL: local[N])."), OptionStyle(SPARK)] = None
    #: Any Spark settings, and the grouping's own parameters.
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: Annotated[int, Doc("Seed of the hash functions."), OptionStyle(metavar="N", name="seed", part_of="-g")] = 0
    key_field: Annotated[
        str | None,
        Doc("COLUMN's key: a field of JSON or Avro (user.id), or a column number of CSV (3)."),
        OptionStyle(metavar="FIELD", name="key", part_of="-s"),
    ] = None
    format: Annotated[
        str | None,
        Doc("Format of COLUMN's messages (default: json)."),
        OptionStyle(metavar="json|avro|csv|text", name="format", part_of="-s"),
    ] = None
    schema: Annotated[
        str | None,
        Doc(
            "Avro: file with the schema of all messages, or registry of the schemas that messages name: "
            "https://USER:PASSWORD@HOST:PORT (default: $SCHEMA_REGISTRY_URL)."
        ),
        OptionStyle(metavar="FILE|URL", name="schema", part_of="-s"),
    ] = field(default=None, repr=False)  # it may have a password
    time_field: Annotated[
        str | None,
        Doc("Event time from a field of the messages: of JSON or Avro (user.at), a column number of CSV (3)."),
        OptionStyle(metavar="FIELD", name="time", part_of="-s"),
    ] = None
    time_unit: Annotated[
        str | None,
        Doc("Unit of numeric times (default: ms). Texts look like 2026-11-28T12:00:00Z."),
        OptionStyle(metavar="s|ms|us|ns", name="unit", part_of="-s"),
    ] = None
    #: The workers' work (None: counting).
    work: "Work | KeyedOperator | None" = None
    work_columns: Annotated[
        tuple[str, ...],
        Doc(
            "What a function reads of a message besides key: Kafka's columns (value, offset, …), or fields of JSON and "
            "Avro (user.age). Keyed operators name their own."
        ),
        OptionStyle(metavar="NAME,…", name="columns", part_of="--work-option"),
    ] = ()
    work_errors: Annotated[
        str,
        Doc("If a function raises: 'fail' (nothing is lost), or 'reject' the message, up to a limit per batch."),
        OptionStyle(metavar="fail|reject", name="errors", part_of="--work-option"),
    ] = "fail"
    ttl: Annotated[
        float | None,
        Gt(0),
        Doc("How long states live after their key's last tuple (s; default: the operator's, or a window)."),
        OptionStyle(metavar="SECONDS", name="ttl", part_of="--work-option"),
    ] = None
    merge_every: Annotated[
        str | None,
        Doc(
            "How often the states of a split key are merged: 30s, '5 batches' (default: when windows close; without "
            "windows in each batch by event time, every 10 s by batch time)."
        ),
        OptionStyle(metavar="PERIOD", name="merge_every", part_of="--work-option"),
    ] = None
    consumer_group: Annotated[
        str | None,
        Doc("Consumer group that shows lag tools the run's progress; '': none."),
        OptionStyle(METRICS, default="unskew-RUN", compared=False),
    ] = None

    def __post_init__(self) -> None:
        """Check each value. ``Dataflow.of`` lets the topology's parts check them.

        Raises ``UsageError`` if a value is bad; the message names it and the valid ones.
        """
        _require_one_of("mode", self.mode, MODES)
        self._choose_time()
        _require_one_of("on_data_loss", self.on_data_loss, DATA_LOSS)
        _require_one_of("emit", self.emit, EMITS)
        _require_one_of("work_errors", self.work_errors, WORK_ERRORS)
        _require_one_of("delivery", self.delivery, DELIVERIES)
        _require_offsets("starting_offsets", self.starting_offsets)
        self._check_topic()
        for f in fields(self):
            _require_in_bounds(f.name, getattr(self, f.name), getattr(f.type, "__metadata__", ()))
        for name in DURATIONS:
            if (getattr(self, name) or 0.0) > LONGEST:
                raise too_long_error(name, getattr(self, name))
        window_ms = round(self.window * 1000, 6)
        if not window_ms or window_ms % 1:
            raise UsageError(f"window is {self.window}; valid: whole milliseconds, as 0.001, 0.5, 15")
        if self.slide is not None:
            parse_slide(self.slide, self.window_ms)
        _ = self.location
        if self.mode == "CLUSTER" and not self.master:
            raise UsageError("mode is CLUSTER, which needs --master (spark://host:port, yarn, k8s://…)")

    def _choose_time(self) -> None:
        """Take event time if messages have their time in a field, and batch time by default."""
        if self.time is None:
            object.__setattr__(self, "time", "batch" if self.time_field is None else "event")
        _require_one_of("time", str(self.time), TIMES)
        if self.time_field is not None and self.time != "event":
            raise UsageError(f"time is {self.time!r}; valid with a time field: event, or leave it out")
        if self.time_unit is not None:
            _require_one_of("time_unit", self.time_unit, TIME_UNITS)
            if self.time_field is None:
                raise UsageError(f"time_unit is {self.time_unit!r}; valid: with a time field alone")

    def _check_topic(self) -> None:
        """Refuse a topic whose name, or those of the topics that are named after it, Kafka wouldn't take."""
        longest = 249 - len(f"{self.name}-distribution") + len(self.topic)
        if self.delivery == "exactly-once":
            longest = min(longest, LONGEST_TOPIC)
        if not re.fullmatch(r"[A-Za-z0-9._-]+", self.topic):
            raise UsageError(f"sourceName {self.topic!r} can't be a Kafka topic; valid: letters, digits, '.', '_', '-'")
        if len(self.topic) > longest:
            raise UsageError(
                f"sourceName {self.topic!r} has {len(self.topic)} characters; valid: at most {longest}, as names of up "
                "to 249 are made of it"
            )

    @property
    def location(self) -> "Location":
        """The checkpoint's location, and how to reach it."""
        from unskew.apps.checkpoint.location import configure_location

        return configure_location(self.checkpoint, self.conf)

    @property
    def carried_columns(self) -> tuple[str, ...]:
        """The message columns that go to the workers with the tuples."""
        own = getattr(self.work, "columns", ())
        return tuple(dict.fromkeys(n for n in (*self.work_columns, *own) if n not in ("key", "time", "count")))

    @property
    def uses_message_time(self) -> bool:
        """Whether Kafka's timestamps matter: to windows, or to the work."""
        by_timestamp = self.time == "event" and self.time_field is None
        return by_timestamp or "timestamp" in self.carried_columns

    @property
    def rejects_failures(self) -> bool:
        """Whether a message is rejected when the work raises on its tuples."""
        return self.work is not None and self.work_errors == "reject"

    @property
    def cost(self) -> "Cost":
        """A tuple's cost at its worker: the process duration divided by the speed, times the factor of its key's class.

        Raises ``UsageError`` if the speed isn't xN, or the factors aren't numbers.
        """
        from unskew.grouping.simulated_cost import Cost

        found = re.fullmatch(r"[xX](\d+)", self.speed)
        if not found:
            raise UsageError(f"speed is {self.speed!r}; valid: x0 (tuples cost nothing), x1, x2, …")
        seconds = self.process_ms / 1000 / int(found[1]) if int(found[1]) else 0.0
        factors = parse_numbers("--key-costs", self.key_costs) if self.key_costs else ()
        return Cost(seconds, tuple(factors), self.seed)

    @property
    def batch_limit(self) -> int:
        """Most tuples a batch."""
        if self.max_tuples is not None:
            return self.max_tuples
        if not self.cost.mean:
            return _FREE_BATCH
        return max(self.sources, round(self.workers * _COSTLY_BATCH / self.cost.mean))

    @property
    def spark_trigger_ms(self) -> int:
        """The interval (ms) at whose multiples Spark's clock begins batches. 0: Spark has none.

        Spark waits for its next trigger even if the batch was full and more messages wait. So if a full batch may be
        shorter than the trigger, Spark gets no trigger, and the run itself waits between batches.
        """
        paced = self.max_tuples is not None or self.trigger > _FULL_BATCH
        return 0 if paced else round(self.trigger * 1000)

    @property
    def heartbeat_lead_ms(self) -> int:
        """By how much at most a heartbeat is ahead of its batch's time (ms): as far as the next batch's at least is.

        So the next batch's watermark is that batch's own time, and it publishes the windows that have ended before it.
        By event time, the messages' times decide. Where changes are published, nothing waits for the watermark.
        """
        return self.spark_trigger_ms if self.time == "batch" and self.emit == "final" else 0

    @property
    def window_ms(self) -> int:
        """Length of a window (ms)."""
        return round(self.window * 1000)

    @property
    def slide_ms(self) -> int:
        """How often a window begins (ms): after its length, unless windows slide."""
        return self.window_ms if self.slide is None else round(self.slide * 1000)

    @property
    def name(self) -> str:
        """The run's name, from which its topics are named."""
        from unskew.grouping import get_grouping

        return f"{self.topic}-s{self.sources}-w{self.workers}-{get_grouping(self.grouping).short}"

    @property
    def group(self) -> str:
        """The consumer group with offsets that show the run's progress; empty: none."""
        return f"unskew-{self.name}" if self.consumer_group is None else self.consumer_group

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a checkpoint is bound to: with one of them changed, its state would be another run's.

        A stage may have more such fields (``WorkerStage.identity``).
        """
        return {
            "sourceType": self.source_type.upper(),
            "groupingType": self.grouping.upper(),
            "sourceName": self.topic,
            "numSpouts": self.sources,
            "numWorkers": self.workers,
            "groupingOptions": {name: _serialise_option(value) for name, value in self.options.items()},
            "seed": self.seed,
            "window": self.window,
            "slide": self.slide if self.slide_ms < self.window_ms else None,
            "emit": self.emit,
            "time": self.time,
            "timeField": self.time_field,
            "timeUnit": None if self.time_field is None else self.time_unit or "ms",
            **(self._key if self.source_type.upper() == "COLUMN" else {}),
        }

    @property
    def _key(self) -> dict[str, str | None]:
        """Where the keys of COLUMN are, with the defaults, so that a run that leaves them out has the same record."""
        form = self.format or "json"
        return {"keyField": self.key_field or ("key" if form == "json" else None), "messageFormat": form}


def _serialise_option(option: Any) -> Any:
    """A grouping's option as a checkpoint records it: a timedelta as its seconds."""
    return option.total_seconds() if isinstance(option, timedelta) else option


def choose_mode(master: str | None) -> str:
    """The mode of a run on this master; None: Spark in this process."""
    return "LOCAL" if master is None or master.startswith("local") else "CLUSTER"


def spell_grouping(grouping_type: str) -> str:
    """The name of a grouping as the registry spells it.

    Raises ``UsageError`` if no grouping has that name.
    """
    from unskew.grouping import get_grouping

    return get_grouping(grouping_type).name


def parse_numbers(option: str, text: str, *, least: float = 0.0, whole: bool = False) -> list[float]:
    """``1,2.5`` or ``1..64`` as numbers.

    Raises ``UsageError`` if the text isn't of that form, or a number is below ``least`` or not whole where it must be.
    """
    try:
        if ".." in text:
            first, last = (int(end) for end in text.split(".."))
            values = [float(value) for value in range(first, last + 1)[:_MOST_NUMBERS]]
            values = values if values[-1:] == [last] else []
        else:
            values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(least <= value < float("inf") and (not whole or value == int(value)) for value in values):
        kind = "whole numbers" if whole else "numbers"
        valid = f"{kind} of at least {least:g}, separated by commas, or A..B for at most {_MOST_NUMBERS:,}"
        raise UsageError(f"{option} is {text!r}; valid: {valid}")
    return values


def _require_one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    """Refuse a value that isn't one of the valid ones."""
    if value not in valid:
        raise UsageError(f"unknown {name} {value!r}{suggest_names(value, valid)}")


def _require_offsets(name: str, value: str) -> None:
    """Refuse what Spark, which sees the offsets when it has started, wouldn't take for a beginning."""
    try:
        if value.lower() in {"earliest", "latest"} or isinstance(json.loads(value), dict):
            return
    except json.JSONDecodeError:
        pass
    valid = suggest_names(value, ("earliest", "latest", 'Spark\'s JSON, as {"TOPIC": {"0": 23, "1": -2}}'))
    raise UsageError(f"{name} is {value!r}{valid}")


def _require_in_bounds(name: str, value: Any, metadata: Iterable[object]) -> None:
    """Refuse a number outside of its annotated bounds; None is no number."""
    if value is None:
        return
    for bound in metadata:
        if isinstance(bound, Gt) and not value > bound.gt:
            raise UsageError(f"{name} is {value}; valid: a number above {bound.gt}")
        if isinstance(bound, Ge) and not value >= bound.ge:
            raise UsageError(f"{name} is {value}; valid: a number of at least {bound.ge}")
