"""The topics of the demo."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights.failure import DemoError

EVENTS = "flights.events"
AIRLINES = "flights.airlines"
AIRPORTS = "flights.airports"
DELAYS = "flights.delays"
DEAD_LETTERS = "flights.dead-letters"
AUDIT = "flights.audit"

# The events are stamped with the time they became known, in 2013: retention by time would delete them at once.
_KEEP = {"retention.ms": "-1"}
_LATEST_OF_EACH_KEY = {"cleanup.policy": "compact"}

_TOPICS = (
    NewTopic(EVENTS, num_partitions=4, replication_factor=1, config=_KEEP),
    NewTopic(AIRLINES, num_partitions=1, replication_factor=1, config=_LATEST_OF_EACH_KEY),
    NewTopic(AIRPORTS, num_partitions=1, replication_factor=1, config=_LATEST_OF_EACH_KEY),
    NewTopic(DELAYS, num_partitions=2, replication_factor=1, config=_KEEP),
    NewTopic(DEAD_LETTERS, num_partitions=1, replication_factor=1, config=_KEEP),
    NewTopic(AUDIT, num_partitions=1, replication_factor=1, config=_KEEP),
)
TOPICS = tuple(topic.topic for topic in _TOPICS)
_TIMEOUT_S = 60


def create_topics(bootstrap: str) -> None:
    """Make the topics. Raises DemoError."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    try:
        for creation in admin.create_topics(list(_TOPICS), operation_timeout=_TIMEOUT_S).values():
            creation.result()
    except KafkaException as error:
        raise DemoError(f"cannot create the topics on {bootstrap}: {error.args[0].str()}") from error
