"""Start a topology from Python, with the settings that the command ``unskew topology`` takes, too."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.listeners import Follower
from unskew.apps.driver.session import require_no_session
from unskew.apps.driver.topology_handle import TopologyHandle
from unskew.apps.settings import DURATIONS, Settings, choose_mode, spell_grouping
from unskew.directories import data_directory
from unskew.durations import parse_seconds
from unskew.errors import UsageError
from unskew.kafka.connection import Connection

#: Settings that ``start`` is given, or that follow from others.
_LATER = ("mode", "connection", "checkpoint")


class Topology:
    """A topology over a Kafka topic: splitter → router → grouped workers → aggregator, with a distribution observer.

    The settings are checked when it is made. It holds no connection until ``start`` runs it.

    Parameters
    ----------
    source_type : str
        What the messages are: a dataset, such as ``COUNTRY_SKEW_R80``, or ``COLUMN`` for your own topic.
    grouping : str
        How tuples are routed: ``KEY``, ``BOUNDED_LOAD``, ``PLANNED``, …
    topic : str
        The Kafka topic. It is created if it doesn't exist.
    sources : int
        Number of sources S > 0: the topic's partitions.
    workers : int
        Number of workers W > 0.
    speed : str
        Simulated cost of tuples. ``xN``: a worker executes N tuples per process duration. ``x0``: they cost nothing.
    **settings
        Any other field of ``unskew.apps.settings.Settings``, such as ``window``, ``time``, ``key_field``,
        ``work``, ``options`` (of the grouping) and ``conf`` (of Spark). A duration (``window``, ``slide``,
        ``lateness``, ``trigger``, ``run_time``, ``max_ahead``, ``ttl``, ``merge_every``) is a timedelta, a number (s),
        or a text such as ``"10 minutes"``.

    Raises
    ------
    UsageError
        There is no such setting, or a value is invalid; the message names the valid ones.

    Examples
    --------
    >>> topology = Topology("COUNTRY_SKEW_R80", "PLANNED", topic="country-skew-80", sources=4, workers=10)
    >>> topology.settings.name
    'country-skew-80-s4-w10-pl'

    """

    def __init__(
        self,
        source_type: str,
        grouping: str,
        *,
        topic: str,
        sources: int,
        workers: int,
        speed: str = "x0",
        **settings: Any,
    ) -> None:
        valid = [f.name for f in fields(Settings) if f.name not in _LATER]
        for name in settings:
            if name not in valid:
                raise UsageError(f"a topology has no setting {name!r}; valid: {', '.join(valid)}")
        for name in DURATIONS:
            if settings.get(name) is not None:
                settings[name] = parse_seconds(name, settings[name])
        mode = choose_mode(settings.get("master"))
        first = (mode, source_type.upper(), spell_grouping(grouping), topic, sources, workers, speed)
        self.settings = Settings(*first, Connection(""), "", **settings)
        Dataflow.of(self.settings)

    def start(
        self,
        bootstrap_servers: str | None = None,
        *,
        kafka_config: Path | str | None = None,
        checkpoint: str | None = None,
        spark: SparkSession | None = None,
        listeners: Sequence[Callable[[BatchReport], None]] = (),
        followers: Sequence[Follower] = (),
    ) -> TopologyHandle:
        """Start the topology in the background.

        Parameters
        ----------
        bootstrap_servers : str, optional
            The brokers, HOST:PORT, several separated by commas. Default: as for the command:
            ``$KAFKA_BOOTSTRAP_SERVERS``, or the broker that ``unskew kafka start`` has started.
        kafka_config : path, optional
            A file with Kafka's settings: lines NAME=VALUE with librdkafka's names.
        checkpoint : str, optional
            Where the progress is kept, from which a topology with the same settings resumes: a path,
            s3a://bucket/path, hdfs://host:port/path. Default: a folder in ``$UNSKEW_HOME`` for this topology.
        spark : SparkSession, optional
            A session of yours, which stays as it is. Its Spark must have the Kafka connector. Default: one that is made
            for the run, and ends with it.
        listeners : sequence of callables
            Called with each batch's report, after its results are published.
        followers : sequence of callables
            Called with Spark's progress of the query after each batch, from another thread.

        Returns
        -------
        TopologyHandle
            The run: a context manager, with ``wait``, ``balance`` and ``stop``.

        Raises
        ------
        UsageError
            The topic has another number of partitions, the checkpoint belongs to another run, or the process has a
            session, which isn't given. (``TopologyHandle.wait`` raises that a session can't run a topology.)
        EnvironmentFault
            There is no broker, or the checkpoint can't be written.

        """
        config = Path(kafka_config) if kafka_config is not None else None
        settings = replace(
            self.settings,
            connection=Connection.of(bootstrap_servers, config),
            checkpoint=checkpoint or choose_checkpoint(self.settings),
        )
        if spark is None:
            require_no_session()
        else:
            master = spark.conf.get("spark.master")
            settings = replace(settings, mode=choose_mode(master), master=master)
        return TopologyHandle(settings, listeners, followers, spark)


def choose_checkpoint(settings: Settings) -> str:
    """Where a run's checkpoint is if nobody says otherwise."""
    return str(data_directory() / "checkpoints" / settings.name)
