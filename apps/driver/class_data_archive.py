"""Creates class-data archives (`unskew.deploy.installation.class_data`) of the classes that a small run loads.

`make setup` runs `python -m unskew.apps.driver.class_data_archive`, which does nothing if the archives exist.
"""

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from unskew.apps.driver.session import open_session
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.settings import Settings
from unskew.deploy.installation import class_data
from unskew.deploy.installation.steps import exclusive_lock
from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection
from unskew.kafka.outbox import TaskDelivery
from unskew.kafka.topics import ensure_topic
from unskew.spark.compat import get_jvm_process

_TOPIC = "training"
_DUMP = 300.0  # s, for a JVM to write its archive at its end


def record() -> None:
    """Create the missing archives.

    Raises ``EnvironmentFault`` if the broker or Spark can't run here.
    """
    folder = class_data.archives_directory()
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder / "lock"):
        if not class_data.has_missing_archive():
            return
        os.environ[class_data.RECORD] = "1"
        try:
            with TemporaryDirectory(prefix="training-", dir=folder) as temporary:
                _run_topologies(Path(temporary))
        finally:
            del os.environ[class_data.RECORD]
        for program in class_data.PROGRAMS:
            class_data.recording_path(program).replace(class_data.archive_path(program))


def _run_topologies(folder: Path) -> None:
    """Run typical topologies: valid and invalid messages, windows in batch time and in event time."""
    with Broker(folder / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        _publish_messages(connection)
        one = Settings("LOCAL", "COUNTRY_SKEW_R80", "PARTIAL_KEY", _TOPIC, 1, 2, "x0", connection, str(folder))
        short = replace(one, window=0.5, lateness=0.0, trigger=0.0, until_drained=True, run_time=120.0)
        batch, event = (replace(short, checkpoint=str(folder / time), time=time) for time in ("batch", "event"))
        with open_session(batch, (batch.grouping,)) as spark:
            process = get_jvm_process(spark)
            for settings in (batch, event):
                StreamingJob(settings, []).run(spark)
        process.stdin.close()  # ends the JVM, which writes its archive
        process.wait(_DUMP)


def _publish_messages(connection: Connection) -> None:
    ensure_topic(connection, _TOPIC, 1)
    delivery = TaskDelivery(connection, _TOPIC)
    countries = ({"country": f"Country {i % 7}"} if i % 10 else {"city": "none"} for i in range(100))
    delivery.put([{"key": b"", "value": orjson.dumps(country)} for country in countries])
    delivery.finish()


if __name__ == "__main__":
    record()
