"""The JVM that the tests of this folder share."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.java.jvm import Jvm
from tests.conformance.java.kafka_tools import KafkaTools
from tests.conformance.needed_peers import needed_peer


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """Kafka's jars and our own Java classes in one running JVM."""
    with needed_peer():
        machine = Jvm(tmp_path_factory.mktemp("jvm"))
    yield machine
    machine.close()


@pytest.fixture
def kafka(jvm: Jvm, broker: BrokerProcess) -> KafkaTools:
    """Kafka's tools, pointed at the broker that the tests share."""
    return KafkaTools(jvm, broker.bootstrap)


@pytest.fixture
def name() -> str:
    """A name for a topic or group that no other test uses."""
    return f"java-{uuid4().hex[:8]}"
