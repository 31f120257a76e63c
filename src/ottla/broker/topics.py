"""What a broker can do about topics, whoever asks: the services that every gateway calls.

They resolve names and ids, ask whether the principal may, and act. Where an answer has an error of its own for each
topic, refusals are outcomes; what concerns the whole request is raised.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, allowed_operations, require
from ottla.broker.config import BrokerConfig
from ottla.broker.delivery_rights import require_delivery_of_new
from ottla.broker.internal_topics import new_internal_topic
from ottla.broker.quota_manager import NO_MUTATION_QUOTA, MutationQuota
from ottla.broker.redis_key_rights import require_key_of_new
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.partition_growth import NewPartitions
from ottla.metadata.controller.topic_creation import CreatedTopic, NewTopic
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.error_texts import ERROR_TEXTS
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import is_internal_topic, validate_topic_name
from ottla.model.topic_partition import TopicPartition
from ottla.model.unknown_topic import no_such_topic, no_such_topic_id

if TYPE_CHECKING:
    from ottla.metadata.controller.leader_election import ElectionOutcomes, ElectionType
    from ottla.metadata.controller.reassignment import OngoingReassignment, Reassignment
    from ottla.peers.controller_channel import ControllerChannel

T = TypeVar("T")


class TopicService:
    """Belongs to the event loop. When a method returns, what it did is durable and visible here.

    NOT_CONTROLLER and KAFKA_STORAGE_ERROR are the outcomes of every topic when nothing could be decided.
    """

    __slots__ = ("_authorizer", "_config", "_controller", "_creator", "_require_writable")

    def __init__(
        self,
        controller: Controller,
        config: BrokerConfig,
        authorizer: Authorizer = ALLOW_ALL,
        require_writable: Callable[[], None] = lambda: None,
        creator: "Controller | ControllerChannel | None" = None,
    ) -> None:
        """`require_writable` raises ApiError KAFKA_STORAGE_ERROR while no partition can be made here.

        `creator` is where topics are made, which may be asked for on any broker; the rest is asked of the controller,
        where it is decided.
        """
        self._controller = controller
        self._creator = creator or controller
        self._config = config
        self._authorizer = authorizer
        self._require_writable = require_writable

    @property
    def image(self) -> MetadataImage:
        """What the cluster has agreed on; the topics in it have their partitions on this broker."""
        return self._controller.image

    def find(self, principal: Principal, wanted: str | UUID) -> TopicImage:
        """The topic of that name or id. Raises the ApiError that `find_many` answers."""
        (outcome,) = self.find_many(principal, (wanted,))
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    def find_many(self, principal: Principal, wanted: Iterable[str | UUID]) -> list[Outcome[TopicImage]]:
        """The topic of each name or id, or why there is none.

        TOPIC_AUTHORIZATION_FAILED for a name the principal may not describe, be it there or not;
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, and UNKNOWN_TOPIC_ID, also for an id whose topic the
        principal may not describe.
        """
        image = self._controller.image
        by_name, by_id = image.topics_by_name, image.topics_by_id
        outcomes: list[Outcome[TopicImage]] = []
        for each in wanted:
            topic = by_name.get(each) if isinstance(each, str) else by_id.get(each)
            if topic is not None and self._may(principal, Operation.DESCRIBE, topic.name):
                outcomes.append(topic)
            else:
                outcomes.append(self._not_found(principal, each))
        return outcomes

    def _not_found(self, principal: Principal, wanted: str | UUID) -> ApiError:
        if isinstance(wanted, UUID):
            return no_such_topic_id(wanted)
        try:
            validate_topic_name(wanted)
            require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.TOPIC, wanted)
        except ApiError as error:
            return error
        return _unknown(wanted)

    def described(self, principal: Principal) -> list[TopicImage]:
        """Every topic the principal may describe, sorted by name."""
        topics = self._controller.image.topics()
        return [topic for topic in topics if self._may(principal, Operation.DESCRIBE, topic.name)]

    def operations(self, principal: Principal, topic: str) -> tuple[Operation, ...]:
        """What the principal may do to a topic."""
        return allowed_operations(self._authorizer, principal, ResourceType.TOPIC, topic)

    async def create(
        self,
        principal: Principal,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        quota: MutationQuota = NO_MUTATION_QUOTA,
    ) -> dict[str, Outcome[CreatedTopic]]:
        """Create topics; the outcome of each by its name."""
        refused = self._refused_creations(principal, (topic.name for topic in topics))
        refused = self._refused_settings(principal, topics) | refused
        taken = _taken(quota, {each.name: self._controller.partitions_of(each) for each in topics}, refused)

        async def act(allowed: Sequence[NewTopic]) -> dict[str, Outcome[CreatedTopic]]:
            self._require_writable()
            return await self._creator.create_topics(allowed, validate_only=validate_only)

        outcomes = await _by_name(topics, lambda topic: topic.name, refused, act)
        _give_back(quota, taken, outcomes)
        return outcomes

    async def delete(
        self, principal: Principal, topics: Sequence[str | UUID], quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> list[Outcome[TopicImage]]:
        """Delete topics by name or id; the outcomes in the order of `topics`."""
        refused = [self._refused_deletion(principal, wanted) or self._too_many(quota, wanted) for wanted in topics]
        allowed = [wanted for wanted, refusal in zip(topics, refused, strict=True) if refusal is None]
        try:
            decided = iter(await self._controller.delete_topics(allowed) if allowed else ())
        except ApiError as error:
            decided = iter([error] * len(allowed))
        return [refusal if refusal is not None else next(decided) for refusal in refused]

    async def create_partitions(
        self,
        principal: Principal,
        requests: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        quota: MutationQuota = NO_MUTATION_QUOTA,
    ) -> dict[str, Outcome[int]]:
        """Add partitions to topics; the outcome of each, its new partition count, by its name."""
        refused = self._refused(principal, Operation.ALTER, (request.topic for request in requests))
        taken = _taken(quota, {each.topic: self._growth(each) for each in requests}, refused)

        async def act(allowed: Sequence[NewPartitions]) -> dict[str, Outcome[int]]:
            self._require_writable()
            return await self._controller.create_partitions(allowed, validate_only=validate_only)

        outcomes = await _by_name(requests, lambda request: request.topic, refused, act)
        _give_back(quota, taken, outcomes)
        return outcomes

    async def elect_leaders(
        self, principal: Principal, election: "ElectionType", partitions: Sequence[TopicPartition] | None
    ) -> "ElectionOutcomes":
        """Elect leaders for partitions, with None for all; why each of them keeps the one it has.

        Raises ApiError CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER or KAFKA_STORAGE_ERROR.
        """
        require(self._authorizer, principal, Operation.ALTER, ResourceType.CLUSTER)
        return await self._controller.elect_leaders(election, partitions)

    def reassignments(
        self, principal: Principal, wanted: Sequence[TopicPartition] | None
    ) -> "list[OngoingReassignment]":
        """The partitions on their way to other brokers, of those `wanted`, with None of all.

        Raises ApiError CLUSTER_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)
        return self._controller.list_reassignments(wanted)

    async def reassign(
        self, principal: Principal, requests: "Sequence[Reassignment]", *, may_change_factor: bool = True
    ) -> list[Outcome[None]]:
        """Have partitions on other brokers, or take back what is under way; the outcomes in the order of `requests`.

        Raises ApiError CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER or KAFKA_STORAGE_ERROR.
        """
        require(self._authorizer, principal, Operation.ALTER, ResourceType.CLUSTER)
        return await self._controller.alter_reassignments(requests, may_change_factor=may_change_factor)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Which of `names` could be created because somebody asks for them (`auto.create.topics.enable`)."""
        if not self._config.auto_create_topics_enable:
            return []
        image = self._controller.image
        return [name for name in names if image.topic(name) is None and _is_legal(name)]

    async def auto_create(
        self, principal: Principal, names: Iterable[str], quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> dict[str, Outcome[TopicImage]]:
        """Create topics with the broker's defaults, those of coordinators as they need them.

        A topic that is there already is not an error. The outcome of each is its image, or why there is none; one that
        the quota does not allow now is not there, and asked for again.
        """
        names = list(dict.fromkeys(names))
        refused = self._refused_creations(principal, names)
        wanted = {name: self._controller.partitions_of(NewTopic(name)) for name in names if not is_internal_topic(name)}
        taken = _taken(quota, wanted, refused)
        for name, error in refused.items():
            if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                refused[name] = _unknown(name)
        outcomes = await _by_name(names, lambda name: name, refused, self._create_with_defaults)
        _give_back(quota, taken, outcomes)
        for name, outcome in outcomes.items():
            if isinstance(outcome, ApiError) and outcome.code is ErrorCode.REQUEST_TIMED_OUT:
                # As in Kafka: the topic may be there soon, and clients ask again.
                outcomes[name] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, outcome.message)
        return outcomes

    async def ensure_internal(self, name: str) -> TopicImage:
        """The topic of a coordinator, created now by the broker itself if it is not there. Raises ApiError."""
        assert is_internal_topic(name), name
        topic = self.image.topic(name)
        if topic is not None:
            return topic
        outcome = (await self._create_with_defaults([name]))[name]
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    async def ensure(self, topic: NewTopic) -> TopicImage:
        """A topic that the broker needs for what somebody was allowed to do, created now if it is not there.

        Raises ApiError.
        """
        found = self.image.topic(topic.name)
        if found is not None:
            return found
        self._require_writable()
        outcome = (await self._creator.create_topics([topic]))[topic.name]
        if isinstance(outcome, ApiError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome
        found = self.image.topic(topic.name)
        if found is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {topic.name} is about to be there")
        return found

    async def _create_with_defaults(self, names: Sequence[str]) -> dict[str, Outcome[TopicImage]]:
        outcomes: dict[str, Outcome[TopicImage]] = {}
        wanted = []
        for name in names:
            internal = new_internal_topic(name, self._config, len(self.image.active_brokers()))
            if internal is None and is_internal_topic(name):
                outcomes[name] = _unknown(name)
            else:
                wanted.append(internal or NewTopic(name))
        self._require_writable()
        created = await self._creator.create_topics(wanted)
        for name, outcome in created.items():
            if isinstance(outcome, ApiError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                outcomes[name] = outcome
                continue
            topic = self.image.topic(name)
            outcomes[name] = topic if topic is not None else _unknown(name)
        return outcomes

    def _growth(self, request: NewPartitions) -> int:
        topic = self.image.topic(request.topic)
        return 0 if topic is None else max(0, request.total_count - len(topic.partitions))

    def _too_many(self, quota: MutationQuota, wanted: str | UUID) -> ApiError | None:
        """Why a topic is not to be deleted now; one that is not there is left to the controller to refuse."""
        topic = self.image.topic(wanted) if isinstance(wanted, str) else self.image.topic_by_id(wanted)
        try:
            quota.take(0 if topic is None else len(topic.partitions))
        except ApiError as error:
            return error
        return None

    def _may(self, principal: Principal, operation: Operation, topic: str) -> bool:
        return self._authorizer.allows(principal, operation, ResourceType.TOPIC, topic)

    def _refused(self, principal: Principal, operation: Operation, names: Iterable[str]) -> dict[str, ApiError]:
        """The topics to which the principal may not do it, each with the reason."""
        refused: dict[str, ApiError] = {}
        for name in names:
            try:
                require(self._authorizer, principal, operation, ResourceType.TOPIC, name)
            except ApiError as error:
                refused[name] = error
        return refused

    def _refused_creations(self, principal: Principal, names: Iterable[str]) -> dict[str, ApiError]:
        """Topics are created by whoever may create any in the cluster, or this one."""
        try:
            require(self._authorizer, principal, Operation.CREATE, ResourceType.CLUSTER)
        except ApiError:
            return self._refused(principal, Operation.CREATE, names)
        return {}

    def _refused_settings(self, principal: Principal, topics: Iterable[NewTopic]) -> dict[str, ApiError]:
        refused: dict[str, ApiError] = {}
        for topic in topics:
            try:
                require_delivery_of_new(self._authorizer, principal, topic)
                require_key_of_new(self._authorizer, principal, topic)
            except ApiError as error:
                refused[topic.name] = error
        return refused

    def _refused_deletion(self, principal: Principal, wanted: str | UUID) -> ApiError | None:
        """A topic that is not there is left to the controller to refuse, by name only for who might see that. By an id
        nobody learns the name of a topic that it may not see.
        """
        name = wanted
        if isinstance(wanted, UUID):
            topic = self.image.topic_by_id(wanted)
            if topic is None:
                return None
            name = topic.name
        assert isinstance(name, str)
        may_see = self._authorizer.allows(principal, Operation.DESCRIBE, ResourceType.TOPIC, name)
        if isinstance(wanted, UUID) and not may_see:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return ApiError(code, ERROR_TEXTS[code])
        if may_see and self.image.topic(name) is None:
            return None
        return self._refused(principal, Operation.DELETE, [name]).get(name)


def _taken(quota: MutationQuota, partitions: Mapping[str, int], refused: dict[str, ApiError]) -> dict[str, int]:
    """The partitions that the quota allows, by topic; topics it does not are added to those that are refused."""
    taken: dict[str, int] = {}
    if quota is NO_MUTATION_QUOTA:
        return taken
    for name, count in partitions.items():
        if name in refused:
            continue
        try:
            quota.take(count)
            taken[name] = count
        except ApiError as error:
            refused[name] = error
    return taken


def _give_back(quota: MutationQuota, taken: Mapping[str, int], outcomes: Mapping[str, Outcome[object]]) -> None:
    """What was not done for another reason does not count."""
    unused = sum(count for name, count in taken.items() if isinstance(outcomes.get(name), ApiError))
    if unused:
        quota.give_back(unused)


W = TypeVar("W")


async def _by_name(
    wanted: Sequence[W],
    name_of: Callable[[W], str],
    refused: dict[str, ApiError],
    act: Callable[[Sequence[W]], Awaitable[dict[str, Outcome[T]]]],
) -> dict[str, Outcome[T]]:
    """The outcome of each, in the order of the request: a refusal, or what came of those that are allowed."""
    allowed = [each for each in wanted if name_of(each) not in refused] if refused else wanted
    decided: dict[str, Outcome[T]] = {}
    if allowed:
        try:
            decided = await act(allowed)
        except ApiError as error:
            decided = {name_of(each): error for each in allowed}
    if not refused:
        return decided
    return {name: refused[name] if name in refused else decided[name] for name in map(name_of, wanted)}


def _is_legal(name: str) -> bool:
    try:
        validate_topic_name(name)
    except ApiError:
        return False
    return True


def _unknown(name: str) -> ApiError:
    return no_such_topic(name)
