"""NSQ clients of a broker with an authorizer: what is taken from them they have no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.broker_process import BrokerProcess
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import address

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_root="toor";'
SETTINGS = {
    "nsq.listener": "127.0.0.1:0",
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:root",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
}


def may_read(kind: ResourceType, name: str) -> AclBinding:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(kind, name, literal, "User:ANONYMOUS", "*", AclOperation.READ, allow)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("nsq-rights") / "data"
    with BrokerProcess(data, SETTINGS, protocol="SASL_PLAINTEXT") as process:
        yield process


@pytest.mark.parametrize("taken", ["topic", "channel"])
def test_who_may_read_no_more_gets_no_further_message(broker: BrokerProcess, taken: str) -> None:
    name = f"without-{taken}"
    rights = {"topic": may_read(ResourceType.TOPIC, name), "channel": may_read(ResourceType.GROUP, name)}
    root = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "root",
        "sasl.password": "toor",
    }
    admin, producer = AdminClient(root), Producer(root)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    for made in admin.create_acls(list(rights.values())).values():
        made.result(60)
    reader = NsqClient(address(broker)).subscribe(name, name, 1)
    producer.produce(name, b"allowed")
    producer.flush(60)
    message = reader.message()
    assert message.body == b"allowed"
    kind, literal = rights[taken].restype, ResourcePatternType.LITERAL
    its_own = AclBindingFilter(kind, name, literal, None, None, AclOperation.ANY, AclPermissionType.ANY)
    (deleted,) = admin.delete_acls([its_own]).values()
    assert len(deleted.result(60)) == 1
    producer.produce(name, b"not any more")
    producer.flush(60)
    reader.finish(message)
    with pytest.raises((EOFError, ConnectionError)):
        reader.message()
    reader.close()
