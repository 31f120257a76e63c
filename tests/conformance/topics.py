"""Topics for tests that share a broker."""

from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.blocking import BlockingClient
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.shared_broker import BROKERS


def new_topic(broker: BrokerProcess, partitions: int = 1, name: str = "topic", **config: str) -> str:
    """Create a topic with a name of its own; config keys are written with `_` for `.`."""
    topic = f"{name}-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, -1, config=settings)]).values():
        future.result(60)
    if BROKERS > 1:
        wait_until(lambda: is_known(broker, topic), f"every broker knows {topic}")
    return topic


def is_known(broker: BrokerProcess, topic: str) -> bool:
    """Whether every broker tells of a topic: which of them a test asks next is its client's to choose."""
    with BlockingClient(broker.bootstrap) as any_broker:
        any_broker.metadata(())
        addresses = [str(each.address) for each in any_broker.cluster().brokers.values()]
    for address in addresses:
        with BlockingClient(address) as one:
            one.metadata((topic,))
            if topic not in one.cluster().topics:
                return False
    return True
