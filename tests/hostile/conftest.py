"""Topics to aim at, and the proof that nothing was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker_process import BrokerProcess
from tests.hostile.raw_peer import RawPeer

LATEST = -1


def create_topic(port: int, name: str, partitions: int = 1, **settings: str) -> str:
    """A new topic; its name. Settings are written with `_` for `.`."""
    configs = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items())
    with RawPeer(port) as peer:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        (created,) = peer.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7).topics
    assert created.error_code == 0, created.error_message
    return name


def end_offset(port: int, topic: str) -> int:
    """The offset after the last record of partition 0."""
    wanted = ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(partition_index=0, timestamp=LATEST),))
    with RawPeer(port) as peer:
        ((answer,),) = (
            each.partitions for each in peer.ask(ListOffsetsRequest(replica_id=-1, topics=(wanted,)), 7).topics
        )
    assert answer.error_code == 0
    return int(answer.offset)


@pytest.fixture
def topic(broker: BrokerProcess) -> Iterator[str]:
    """A topic into which nothing may be written: looked at in the end."""
    name = create_topic(broker.port, f"hostile-{uuid4().hex[:8]}")
    yield name
    assert end_offset(broker.port, name) == 0


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[RawPeer]:
    """A connection to the broker that all tests share."""
    with RawPeer(broker.port) as peer:
        yield peer


@pytest.fixture
def quiet_broker(new_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker of the test's own, whose log holds what this test caused and nothing else."""
    return new_broker().start()
