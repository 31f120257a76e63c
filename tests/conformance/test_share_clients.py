"""Share groups through clients that are neither Kafka's nor ours: franz-go."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.broker_process import BrokerProcess
from tests.conformance.clients.peer_programs import FranzGoClient
from tests.conformance.needed_peers import needed_peer

COUNT = 100


@pytest.mark.peer
@pytest.mark.proves(client="franz-go", feature="share groups")
def test_two_members_end_each_record_once(broker: BrokerProcess) -> None:
    with needed_peer():
        client = FranzGoClient(broker)
    name = f"share-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 2)])[name].result(60)
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    (done,) = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.GROUP, name, incremental_configs=[earliest])]
    ).values()
    done.result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT):
        producer.produce(name, str(number), partition=number % 2)
    assert producer.flush(60) == 0
    ended = client.program.call("share_members", group=name, topic=name, count=COUNT)
    client.close()
    assert ended == {"accepted": 90, "rejected": 10, "released": 10, "odd": None}
