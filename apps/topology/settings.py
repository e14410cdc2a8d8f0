"""What a run of the topology is asked to do, checked before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Gt

from unskew.apps.topology.valid import cost_of, grouping, in_bounds, one_of, topic_name
from unskew.deploy.client.connection import Connection
from unskew.deploy.commands.options import METRICS
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.apps.checkpoint.place import Place
    from unskew.apps.keyed.asked import Asked
    from unskew.apps.topology.cost import Cost
    from unskew.apps.topology.work import Work
    from unskew.works.interface import KeyedWork

#: Panels of a command's help.
GROUPING = "Of the grouping"
STREAM = "Of the stream"
SPARK = "Of Spark"
STATES = "Of a work with a state per key"
_of_stream, _of_spark, _of_states = (partial(typer.Option, rich_help_panel=panel) for panel in (STREAM, SPARK, STATES))

MODES = ("LOCAL", "CLUSTER")
TIMES = ("batch", "event")

# Tuples a batch at most, when they cost nothing: enough that a batch's fixed cost (a second on two cores) is small.
_FREE_BATCH = 5_000_000
_COSTLY_BATCH = 1.0  # s; when they cost something: as many as W workers side by side do in it


@dataclass(frozen=True)
class Settings:
    """One run: what is asked of it, each thing declared here for the command line, for comparisons and for Python.

    The first seven are the original's arguments, in its order. What has no help text, commands don't show:

    Attributes
    ----------
    connection : Connection
        The Kafka cluster.
    checkpoint : str
        Where the run's progress is kept; the same resumes it: a path, s3a://bucket/path, hdfs://host:port/path.
    conf, options : mapping
        Any Spark settings; the grouping's own parameters.
    work, work_columns : Work, KeyedWork or None, tuple of str
        The workers' work (None: count), and the message columns that it needs (one with states names its own).

    """

    mode: Annotated[str, typer.Argument(help="LOCAL (Spark in this process) or CLUSTER (on --master).")]
    source_type: Annotated[str, typer.Argument(help="What the messages are: COUNTRY_SKEW_R80, COLUMN, …")]
    grouping: Annotated[
        str,
        typer.Argument(
            metavar="GROUPING_TYPE", help="How tuples are routed: SHUFFLE, KEY, PARTIAL_KEY, DYNAMIC_KEY, …"
        ),
    ]
    source_name: Annotated[str, typer.Argument(help="The Kafka topic; `topology` makes it if it isn't there.")]
    sources: Annotated[int, Gt(0), typer.Argument(metavar="NUM_SPOUTS", help="Sources S: the topic's partitions.")]
    workers: Annotated[int, Gt(0), typer.Argument(metavar="NUM_WORKERS", help="Workers W.")]
    speed: Annotated[str, typer.Argument(help="xN: a worker does N tuples per process duration; x0: they're free.")]
    connection: Connection
    checkpoint: str
    process_ms: Annotated[float, Ge(0), typer.Option("--process-duration", help="Simulated cost (ms); see speed.")] = (
        1.0
    )
    key_costs: Annotated[
        str | None,
        typer.Option(metavar="N,…", help="How many times that a tuple costs, by class of its key: 1,10 or 1..64."),
    ] = None
    window: Annotated[float, Gt(0), _of_stream(help="Length of a window (s).")] = 15.0
    time: Annotated[str, _of_stream(help="Windows by 'batch' time (none is late) or 'event' time (Kafka's).")] = "batch"
    lateness: Annotated[float, Ge(0), _of_stream(help="Event time: how late is allowed (s).")] = 10.0
    trigger: Annotated[
        float, Ge(0), _of_spark(help="At least so long between batches (s), unless a backlog is left.")
    ] = 1.0
    run_time: Annotated[float, Gt(0), typer.Option(help="Stop after so many seconds (10 days).")] = 864_000.0
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Stop when all published so far is counted and its windows out.")
    ] = False
    starting_offsets: Annotated[str, _of_stream(help="Without a checkpoint: earliest, latest, or Spark's JSON.")] = (
        "earliest"
    )
    max_ahead: Annotated[
        float, Ge(0), _of_stream(help="Event time: reject messages so far ahead of the batch's time (s).")
    ] = 3600.0
    on_data_loss: Annotated[
        str, _of_stream(help="Messages that Kafka removed before their turn: 'fail', or 'skip' and count them.")
    ] = "fail"
    max_tuples: Annotated[
        int | None, Gt(0), _of_stream(help="Tuples a batch at most (default: a second of work; 5 M if free).")
    ] = None
    master: Annotated[str | None, _of_spark(help="Master URL (default in LOCAL: local[N]).")] = None
    state_partitions: Annotated[
        int | None,
        Gt(0),
        _of_spark(help="Partitions of the state, fixed once a checkpoint is made (default: the cores, 4 to 128)."),
    ] = None
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: Annotated[int, typer.Option(help="Chooses the hash functions.", rich_help_panel=GROUPING)] = 0
    key_field: Annotated[
        str | None, _of_stream(help="COLUMN: the key: JSON's or Avro's field user.id, CSV's column 3.")
    ] = None
    format: Annotated[
        str | None, _of_stream(help="COLUMN: the topic's messages are json (default), avro, csv, text.")
    ] = None
    schema: Annotated[str | None, _of_stream(metavar="FILE", help="Avro: the schema of all messages.")] = None
    schema_registry: Annotated[
        str | None,
        _of_stream(
            metavar="URL",
            help="Avro: has the schemas that messages name; https://USER:PASSWORD@HOST:PORT ($SCHEMA_REGISTRY_URL).",
        ),
    ] = field(default=None, repr=False)  # it may have a password
    work: "Work | KeyedWork | None" = None
    work_columns: tuple[str, ...] = ()
    work_errors: Annotated[
        str, typer.Option(help="Where your work raises: 'fail' (nothing is lost), or 'reject' the message.")
    ] = "fail"
    ttl: Annotated[
        float | None,
        Gt(0),
        _of_states(help="States live so long after a key's last tuple (s; default: as the work asks, or a window)."),
    ] = None
    merge_every: Annotated[
        str | None,
        _of_states(
            help="How often the states of a split key meet: 30s, '5 batches' (default: when windows close, else 10s)."
        ),
    ] = None
    consumer_group: Annotated[
        str | None,
        typer.Option(
            help="Kafka group that shows lag tools how far the run is; '' for none.",
            show_default="unskew-RUN",
            rich_help_panel=METRICS,
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check everything that can be checked without a broker or Spark.

        Raises
        ------
        UsageError
            Naming the bad value and the valid ones.

        """
        one_of("mode", self.mode, MODES)
        one_of("time", self.time, TIMES)
        # Here: the commands' help needn't wait for pyspark and numba.
        from unskew.apps.topology import loss, work
        from unskew.apps.topology.splitter import splitter_of

        one_of("on_data_loss", self.on_data_loss, loss.POLICIES)
        one_of("work_errors", self.work_errors, work.POLICIES)
        splitter_of(self)
        topic_name(self.source_name)
        for f in fields(self):
            in_bounds(f.name, getattr(self, f.name), getattr(f.type, "__metadata__", ()))
        grouping(self)
        _ = self.states
        if round(self.window * 1000, 6) % 1:
            raise UsageError(f"window is {self.window}; valid: whole milliseconds, as 0.001, 0.5, 15")
        _ = self.place
        if self.mode == "CLUSTER" and not self.master:
            raise UsageError("mode CLUSTER needs --master (spark://host:port, yarn, k8s://…)")

    @property
    def place(self) -> "Place":
        """Where the run's progress is kept, and how to get there."""
        from unskew.apps.checkpoint.place import asked

        return asked(self.checkpoint, self.conf)

    @property
    def states(self) -> "Asked | None":
        """What is asked of a work with states; None if the work has none."""
        from unskew.apps.keyed.asked import asked

        return asked(self)

    @property
    def carried(self) -> tuple[str, ...]:
        """The message columns that go to the workers."""
        own = getattr(self.work, "columns", ())
        return tuple(dict.fromkeys(n for n in (*self.work_columns, *own) if n not in ("key", "time", "count")))

    @property
    def rejecting(self) -> bool:
        """Whether messages are rejected on whose tuples the work raises."""
        return self.work is not None and self.work_errors == "reject"

    @property
    def cost(self) -> "Cost":
        """What a tuple costs its worker."""
        return cost_of(self)

    @property
    def batch_limit(self) -> int:
        """Most tuples a batch."""
        if self.max_tuples is not None:
            return self.max_tuples
        if not self.cost.mean:
            return _FREE_BATCH
        return max(self.sources, round(self.workers * _COSTLY_BATCH / self.cost.mean))

    @property
    def window_ms(self) -> int:
        """Length of a window (ms)."""
        return round(self.window * 1000)

    @property
    def name(self) -> str:
        """The run's name, from which its topics are named."""
        from unskew.grouping import named

        return f"{self.source_name}-s{self.sources}-w{self.workers}-{named(self.grouping).short}"

    @property
    def group(self) -> str:
        """The consumer group that is told how far the run is; empty: none."""
        return f"unskew-{self.name}" if self.consumer_group is None else self.consumer_group

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint is bound to: with any of it changed, its state would mean something else."""
        return {
            "sourceType": self.source_type.upper(),
            "groupingType": self.grouping.upper(),
            "sourceName": self.source_name,
            "numSpouts": self.sources,
            "numWorkers": self.workers,
            "groupingOptions": dict(self.options),
            "seed": self.seed,
            "window": self.window,
            "time": self.time,
            **({"keyField": self.key_field, "messageFormat": self.format} if self.key_field or self.format else {}),
            **(self.states.identity(self) if self.states else {}),
        }
