"""Brokers that refuse transactions: one line says which right is missing, and what the other option is."""

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from unskew.deploy.servers.broker import Broker
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.kafka.transactions import COMMITS, BatchId, TransactionalWriter, read_last_batch_ids
from unskew.loopback import LOOPBACK, free_port

pytestmark = [pytest.mark.nightly(group="clusters"), pytest.mark.kafka, pytest.mark.slow]

PORT = free_port()


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A broker that asks for rights: its first listener has all of them, and alice those that she is given."""
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    properties = {
        "listeners": f"SASL_PLAINTEXT://{LOOPBACK}:{PORT}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(tmp_path_factory.mktemp("strict"), properties=properties) as broker:
        yield broker


@pytest.fixture
def alice() -> Connection:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
    return Connection(f"{LOOPBACK}:{PORT}", {"security.protocol": "SASL_PLAINTEXT", **login})


def grant(broker: Broker, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Give alice rights on what begins with a name."""
    admin = Connection(broker.bootstrap_servers).admin()
    for operation in operations:
        of = kind, name, ResourcePatternType.PREFIXED, "User:alice", "*", operation, AclPermissionType.ALLOW
        for done in admin.create_acls([AclBinding(*of)]).values():
            done.result()


def test_the_rights_that_a_run_needs(strict, alice, topic):
    every = Connection(strict.bootstrap_servers)
    ensure_topic(every, topic, 1)
    ensure_topic(every, f"{topic}-commits", 1, COMMITS)

    def write() -> bool:
        writer = TransactionalWriter(alice, f"{topic}-0", f"{topic}-commits", 0)
        begun = writer.begin(topic, BatchId(0, 0))
        writer.put([{"key": b"k", "value": b"v"}] if begun else [])
        if begun:
            writer.finish()
        return begun

    grant(strict, ResourceType.TOPIC, topic, AclOperation.DESCRIBE, AclOperation.WRITE)
    refused = f"refuses the transactional id {topic}-0 .*grant WRITE and DESCRIBE on it.*; --delivery at-least-once"
    with pytest.raises(EnvironmentFault, match=refused) as error:
        write()
    assert "\n" not in str(error.value)
    grant(strict, ResourceType.TRANSACTIONAL_ID, topic, AclOperation.DESCRIBE, AclOperation.WRITE)
    with pytest.raises(EnvironmentFault, match=f"reading {topic}-commits failed: .*uthoriz"):
        write()
    grant(strict, ResourceType.TOPIC, topic, AclOperation.READ)
    assert write()
    assert not write()
    assert read_last_batch_ids(every, f"{topic}-commits", [0]) == {0: BatchId(0, 0)}
