"""Topics made while a broker may die."""

from concurrent.futures import Future
from itertools import count

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.history import TopicCreation
from chaos.recorder import Recorder
from ottla.simulation.history import Outcome
from workload.worker import PATIENCE_S


class TopicMaker:
    """Asks for one topic after the other and notes what the broker said."""

    def __init__(self, bootstrap: str, recorder: Recorder, replication_factor: int = 1) -> None:
        self._replication_factor = replication_factor
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self._recorder = recorder
        self._numbers = count()
        self._waiting: list[tuple[TopicCreation, Future[None]]] = []

    def create(self) -> None:
        """Ask for a topic of its own name, without waiting."""
        number = next(self._numbers)
        creation = self._recorder.create_topic(f"made-{number}", 1 + number % 3)
        wanted = NewTopic(creation.topic, creation.partition_count, self._replication_factor)
        (future,) = self._admin.create_topics([wanted], request_timeout=PATIENCE_S).values()
        self._waiting.append((creation, future))

    def settle(self) -> None:
        """Wait for the outcomes; a failure may have come after the deed, so it stays unknown."""
        waiting, self._waiting = self._waiting, []
        for creation, future in waiting:
            try:
                future.result(2 * PATIENCE_S)
            except KafkaException:
                continue
            creation.outcome = Outcome.OK


def create_load_topics(
    bootstrap: str, topics: dict[str, int], config: dict[str, str], replication_factor: int = 1
) -> None:
    """The topics of the load. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    wanted = [
        NewTopic(topic, partition_count, replication_factor, config=config) for topic, partition_count in topics.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(PATIENCE_S)
