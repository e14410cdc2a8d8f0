"""The settings of the embedded Kafka broker: one lean KRaft node on the loopback interface."""

from collections.abc import Mapping
from pathlib import Path

from unskew.deploy.servers.ports import LOOPBACK


def server_properties(
    records: Path, port: int, controller_port: int, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The broker's properties.

    Parameters
    ----------
    records
        Directory of the topics' data.
    port, controller_port
        Where clients and where the broker's own controller connect.
    extra
        More properties, or others than ours. `listeners` adds to the two that the broker needs.
    """
    extra = dict(extra or {})
    listeners = [f"PLAINTEXT://{LOOPBACK}:{port}", f"CONTROLLER://{LOOPBACK}:{controller_port}"]
    if more := extra.pop("listeners", ""):
        listeners.append(more)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(records),
        # One node holds every replica.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A replayed data set carries its own, old times: by the default Kafka would delete it again within minutes.
        "log.retention.ms": "-1",
        # A misspelt topic should fail, not appear.
        "auto.create.topics.enable": "false",
        # Without these a restart after kill -9 takes 12 s, not 3: the controller waits for the dead session to expire.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        # Lean: the defaults are for a machine of its own.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "log.cleaner.io.buffer.size": "131072",
        **extra,
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    escaped = ((name, value.replace("\\", "\\\\").replace("\n", "\\n")) for name, value in properties.items())
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped))
    path.chmod(0o600)  # it may hold passwords
