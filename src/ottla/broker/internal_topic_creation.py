"""Making the topics that streams groups need, in the background: nobody waits, the next heartbeat finds them.

A topic is asked of the controller once at a time. When that fails it is asked again with a later heartbeat, after a
while that doubles each time; until then the members are told why.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ottla.broker.access import CLUSTER_NAME, Authorizer, Operation, ResourceType
from ottla.broker.topics import TopicService
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks

RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 60_000
"""A topic that could not be made is tried again after these times, doubling from one to the other."""

FAILURES_MAX: Final = 1_000
"""Topics of which it is remembered why they could not be made; beyond, the oldest is forgotten and tried at once."""

MESSAGE_CHARACTERS_MAX: Final = 200
"""How much of a reason is told, of a topic whose settings may be long."""


class WantedTopic(Protocol):
    """A topic as a streams group needs it (`ottla.groups.streams.configured_topology.InternalTopic`)."""

    @property
    def name(self) -> str: ...
    @property
    def partition_count(self) -> int: ...
    @property
    def replication_factor(self) -> int: ...
    @property
    def configs(self) -> Mapping[str, str]: ...


class _Failure(Struct, frozen=True):
    message: str
    retry_at_ms: int
    delay_ms: int


class InternalTopicCreation:
    """Belongs to the event loop; never blocks."""

    __slots__ = ("_authorizer", "_clock", "_failures", "_pending", "_tasks", "_topics")

    def __init__(self, topics: TopicService, authorizer: Authorizer, clock: Clock, tasks: Tasks) -> None:
        self._topics = topics
        self._authorizer = authorizer
        self._clock = clock
        self._tasks = tasks
        self._pending: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    def refused(self, principal: Principal, names: Iterable[str]) -> list[str]:
        """The topics of these names that the principal may not create."""
        allows = self._authorizer.allows
        if allows(principal, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
            return []
        return [each for each in names if not allows(principal, Operation.CREATE, ResourceType.TOPIC, each)]

    def ask(self, principal: Principal, topics: Iterable[WantedTopic]) -> None:
        """Have those topics made that are not on their way and whose time to be tried again has come."""
        now_ms = self._clock.monotonic_ms()
        due = [
            NewTopic(topic.name, topic.partition_count, topic.replication_factor, configs=dict(topic.configs))
            for topic in topics
            if topic.name not in self._pending
            and ((failure := self._failures.get(topic.name)) is None or failure.retry_at_ms <= now_ms)
        ]
        if due:
            self._pending.update(topic.name for topic in due)
            self._tasks.spawn(self._create(principal, due), "create internal topics of a streams group")

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Of these topics those that could not be made the last time, and why."""
        return {name: failure.message for name in names if (failure := self._failures.get(name)) is not None}

    async def _create(self, principal: Principal, topics: Sequence[NewTopic]) -> None:
        try:
            outcomes = await self._topics.create(principal, topics)
        finally:
            self._pending.difference_update(topic.name for topic in topics)
        for name, outcome in outcomes.items():
            before = self._failures.pop(name, None)
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                delay_ms = RETRY_MS_MIN if before is None else min(2 * before.delay_ms, RETRY_MS_MAX)
                message = (outcome.message or outcome.code.name)[:MESSAGE_CHARACTERS_MAX]
                self._failures[name] = _Failure(message, self._clock.monotonic_ms() + delay_ms, delay_ms)
        while len(self._failures) > FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
