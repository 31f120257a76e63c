"""A broker with two idempotent producers at work, for something to happen to its disk."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.chapter import BROKER_SETTINGS, PARTITIONS, TOPIC_CONFIG, TOPICS
from chaos.checker import check
from chaos.final_state import read_final_state
from chaos.members import ConfluentMember, wait_for_members
from chaos.producers import AiokafkaProducer, ConfluentProducer, LoadProducer
from chaos.recorder import Recorder
from chaos.topics import create_load_topics
from ottla.simulation.history import Outcome
from tests.broker_process import BrokerProcess
from workload.worker import PATIENCE_S

POLL_S = 0.02


@dataclass(slots=True)
class TroubleOutcome:
    """What a scenario showed: facts for the reader, and problems, of which there must be none."""

    name: str
    facts: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(problem)


class Stage:
    """The broker, its producers and what they did."""

    def __init__(self, broker: BrokerProcess, outcome: TroubleOutcome) -> None:
        self.broker = broker
        self.outcome = outcome
        self.recorder = Recorder()
        self.member = ConfluentMember("group", broker.bootstrap, self.recorder, PARTITIONS)
        self.producers: list[LoadProducer] = [
            ConfluentProducer("confluent", broker.bootstrap, self.recorder, "load-confluent", 2),
            AiokafkaProducer("aiokafka", broker.bootstrap, self.recorder, "load-aiokafka", 2),
        ]

    def wait_for_writes(self) -> float:
        """Wait until both producers had something acknowledged that they were given from now on; seconds it took."""
        begun = self.recorder.mark()
        try:
            done = self.recorder.wait_for_producers([producer.name for producer in self.producers], PATIENCE_S)
        except TimeoutError:
            for producer in self.producers:
                producer.require_sound()
            raise
        return max(done.values()) - begun

    def log_lines(self, part: str) -> list[str]:
        """The lines of the broker's log with `part` in them."""
        return [line for line in self.broker.log_path.read_text().splitlines() if part in line]

    def wait_for_line(self, part: str) -> None:
        """Wait until the broker says something."""
        wait_until(lambda: bool(self.log_lines(part)), f"the broker says {part!r}")

    def produce_error(self, topic: str = "probe") -> str | None:
        """The error code a producer that does not try again gets; None when it is acknowledged."""
        outcomes: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            outcomes.append(error)

        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "message.send.max.retries": 0, "log_level": 2})
        producer.produce(topic, value=b"probe", partition=0, on_delivery=delivered)
        producer.flush(PATIENCE_S)
        error = outcomes[0]
        return None if error is None else error.name()

    def create_topic_error(self, topic: str) -> str | None:
        """The error code of a creation; None when it is acknowledged."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 2})
        (future,) = admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=10, request_timeout=10).values()
        try:
            future.result(PATIENCE_S)
        except KafkaException as error:
            return error.args[0].name()
        return None

    def read_everything(self) -> int:
        """Read all that consumers may; how many records."""
        return sum(map(len, read_final_state(self.broker.bootstrap, PARTITIONS).records.values()))

    def settle(self) -> None:
        """Let everybody come to their end and check everything, now and after a kill."""
        for producer in self.producers:
            producer.stop()
        records = read_final_state(self.broker.bootstrap, PARTITIONS).records
        wait_for_members([self.member], {partition: len(found) for partition, found in records.items()})
        self.member.begin_anew()
        wait_until(lambda: not self.member.must_leave, "the member begins anew")
        self.member.stop()
        for when in ("", "after a kill: "):
            if when:
                self.broker.kill()
                self.broker.start()
            final = read_final_state(self.broker.bootstrap, PARTITIONS)
            self.outcome.problems += [f"{when}{violation}" for violation in check(self.recorder.history, final)]
        history = self.recorder.history
        acknowledged = sum(send.outcome is Outcome.OK for send in history.sends)
        commits = sum(commit.outcome is Outcome.OK for commit in history.commits)
        self.outcome.facts |= {"records acknowledged": acknowledged, "commits acknowledged": commits}


@contextmanager
def stage(
    outcome: TroubleOutcome, data_dir: Path, log_dir: Path, environment: dict[str, str] | None = None
) -> Iterator[Stage]:
    """A broker with producers at work; it is killed at the end."""
    broker = BrokerProcess(data_dir, dict(BROKER_SETTINGS), log_dir=log_dir, environment=environment or {}).start()
    try:
        create_load_topics(broker.bootstrap, TOPICS, TOPIC_CONFIG)
        create_load_topics(broker.bootstrap, {"probe": 1}, {})
        ready = Stage(broker, outcome)
        for worker in (*ready.producers, ready.member):
            worker.start()
        ready.wait_for_writes()
        yield ready
    finally:
        broker.kill()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S} s until {what}")
        time.sleep(POLL_S)
