"""Leaders of partitions that move between two brokers, and move back."""

from collections.abc import Callable

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient

from evidence.faults.waiting import await_condition
from unskew.errors import EnvironmentFault

#: Of two brokers. By Kafka's defaults one replica in sync is enough to go on, and none that isn't ever leads.
REPLICATED = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
}
IN_SYNC_PATIENCE = 120.0  # s until a broker that has been started is in sync
_TIMEOUT = 10.0  # s, of a request to the brokers


def settle(admin: Callable[[], AdminClient], wait: Callable[[float], None]) -> None:
    """Wait until all replicas are in sync, and let each partition be led by the broker that was meant to.

    ``admin``: Gives a client to ask. ``wait``: Lets so much time pass.
    Raises EnvironmentFault: They aren't in sync in time, or the brokers don't answer.
    """
    if not await_condition(lambda: _in_sync(admin()), IN_SYNC_PATIENCE, wait):
        raise EnvironmentFault(f"a broker isn't in sync within {IN_SYNC_PATIENCE:.0f} s")
    _bring_back(admin())


def _in_sync(admin: AdminClient) -> bool:
    """Whether all replicas of all partitions are in sync."""
    try:
        found = admin.list_topics(timeout=_TIMEOUT).topics.values()
    except KafkaException:
        return False
    return all({*each.replicas} == {*each.isrs} for topic in found for each in topic.partitions.values())


def _bring_back(admin: AdminClient) -> None:
    try:
        # The client takes no request_timeout here, whatever its docstring says (SystemError in 2.16.1).
        admin.elect_leaders(ElectionType.PREFERRED, None).result(_TIMEOUT)
    except KafkaException as error:
        raise EnvironmentFault(f"no leaders are elected: {error}") from error
