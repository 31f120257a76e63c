"""Topics for tests that share a broker."""

from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess


def new_topic(broker: BrokerProcess, partitions: int = 1, name: str = "topic", **config: str) -> str:
    """Create a topic with a name of its own; config keys are written with `_` for `.`."""
    topic = f"{name}-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(10)
    return topic
