"""The controller: takes decisions one after another, makes them durable, then makes them seen.

    request --> decide(newest image) --> records --> store.append --> MetadataLoader.advance --> answer

Requests that wait while the store writes are decided together next and share one append, each on the image the ones
before it lead to. So a decision always sees every earlier one, and a thousand small requests do not cost a thousand
disk writes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from ottla.metadata.controller.config_alteration import ResourceAlteration, decide_config_alteration
from ottla.metadata.controller.decision import Decide, Decision, LogLine, Outcome, unless_validating
from ottla.metadata.controller.feature_update import FeatureUpdate, decide_feature_update
from ottla.metadata.controller.lone_registration import decide_lone_registration
from ottla.metadata.controller.partition_growth import NewPartitions, decide_partition_growth
from ottla.metadata.controller.quota_alteration import QuotaAlteration, decide_quota_alteration
from ottla.metadata.controller.replica_directories import ReplicaPlace, decide_replica_directories
from ottla.metadata.controller.topic_creation import DEFAULT, CreatedTopic, NewTopic, decide_topic_creation
from ottla.metadata.controller.topic_deletion import decide_topic_deletion
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import NO_LEADER, ConfigResource, MetadataImage, TopicImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import (
    ControllerRecord,
    MetadataRecord,
    PartitionState,
    ProducerIdsRecord,
    encode_record,
)
from ottla.metadata.store.interface import (
    FencedError,
    MetadataStore,
    SessionExpiredError,
    StaleOffsetError,
    StoreError,
    UnknownOutcomeError,
)
from ottla.metadata.store.outage import StoreOutage, timed_out
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.settings.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from ottla.metadata.controller.broker_watch import BrokerWatch, HeartbeatAnswer
    from ottla.metadata.controller.leader_election import ElectionOutcomes, ElectionType
    from ottla.metadata.controller.partition_leadership import PartitionProposal
    from ottla.metadata.controller.partition_upkeep import LogEnds, PartitionUpkeep
    from ottla.metadata.controller.reassignment import OngoingReassignment, Reassignment

logger = logging.getLogger(__name__)

T = TypeVar("T")

NO_EPOCH: Final = -1
"""The epoch of a broker that is not the controller."""

PRODUCER_ID_BLOCK_SIZE: Final = 1000
"""Producer ids a broker takes at a time, as in Kafka: one metadata record for a thousand producers."""


class Controller:
    """The one that decides, on this broker. Belongs to the event loop; its methods may be called concurrently.

    It decides from `take_over` to `resign`. The other methods raise ApiError NOT_CONTROLLER when another broker has
    taken over, and KAFKA_STORAGE_ERROR when the store cannot write. Those that change what clients ask for raise
    REQUEST_TIMED_OUT while no broker reaches the store (`StoreOutage`).
    """

    def __init__(
        self,
        store: MetadataStore,
        loader: MetadataLoader,
        settings: BrokerSettings,
        rng: Rng,
        tasks: Tasks,
        *,
        clock: Clock,
        timer: Timer,
        outage: StoreOutage | None = None,
        log_ends: "LogEnds | None" = None,
    ) -> None:
        """`outage` says whether it is the store that keeps a client waiting; None lets clients wait. `log_ends` asks
        live replicas how their logs end, before one of them is elected though it may miss records.
        """
        self._store = store
        self._loader = loader
        self._settings = settings
        self._limits = TopicLimits.from_settings(settings)
        self._rng = rng
        self._tasks = tasks
        self._epoch = self._candidate = NO_EPOCH
        self._waiting: deque[_Waiting] = deque()
        self._is_running = False
        self._broker_id = NO_LEADER
        self._clock = clock
        self._timer = timer
        self._brokers: BrokerWatch | None = None
        self._upkeep: PartitionUpkeep | None = None
        self.log_ends = log_ends
        self.outage = outage
        self.on_refused: Callable[[StoreError], object] = lambda _error: None
        """Called when the store took a decision from this broker no more, or its answer was lost: to resign."""
        self.on_cut_off: Callable[[], bool] = lambda: False
        """Called when this broker hears too few of those that live to decide about them; whether it resigns."""
        self.on_heard: Callable[[], object] = lambda: None
        """Called now and then while it hears enough of them."""

    @property
    def is_active(self) -> bool:
        """Whether this broker decides."""
        return self._epoch != NO_EPOCH

    @property
    def epoch(self) -> int:
        """The epoch it was elected with, -1 while it does not decide."""
        return self._epoch

    @property
    def image(self) -> MetadataImage:
        """The newest image whose topics have their partitions on this broker."""
        return self._loader.image

    async def take_over(self, broker_id: int, epoch: int) -> None:
        """This broker was elected, and its image is loaded: tell the log, and which brokers there are.

        Nothing else is decided before. Raises StoreError, FencedError when it was to resign meanwhile.
        """
        self._candidate = epoch
        live = await self._store.live_brokers()
        image = self.image
        registration = decide_lone_registration(image, live, broker_id)
        decision = Decision(registration or (), None)
        if registration is None:
            decision = self._watch().decide_take_over(image, live, broker_id)
        records = (ControllerRecord(broker_id, epoch), *decision.records)
        await self._append(records, epoch, image.end_offset)
        await self._loader.advance(records, from_offset=image.end_offset)
        if self._candidate != epoch:
            raise FencedError("it resigned before it had taken over")
        self._epoch, self._broker_id = epoch, broker_id
        _log(decision.lines)
        if self._brokers is not None:
            self._brokers.start(broker_id)
        self._look_after_partitions()
        await self._loader.compact(epoch)

    def resign(self) -> None:
        """Decide no more: another broker was elected, or this one stops. What waits is told NOT_CONTROLLER."""
        self._epoch = self._candidate = NO_EPOCH
        if self._brokers is not None:
            self._brokers.stop()
        if self._upkeep is not None:
            self._upkeep.stop()

    async def brokers_changed(self) -> None:
        """Sessions came or went: have the metadata show those that live. Raises StoreError: to be tried again."""
        self._require_active()
        if self._brokers is None:
            live = await self._store.live_brokers()
            if decide_lone_registration(self.image, live, self._broker_id) == ():
                return
        await self._watch().brokers_changed()

    async def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        metadata_offset: int,
        *,
        want_fence: bool = False,
        want_shutdown: bool = False,
        offline_directories: frozenset[UUID] = frozenset(),
    ) -> "HeartbeatAnswer":
        """A broker says that it lives; `metadata_offset` is the end offset of its image.

        Raises ApiError STALE_BROKER_EPOCH (it has no session with this epoch, or not yet), INVALID_REGISTRATION (it is
        not taken into the cluster, and is to stop).
        """
        self._require_active()
        return await self._watch().heartbeat(
            broker_id,
            broker_epoch,
            metadata_offset,
            want_fence=want_fence,
            want_shutdown=want_shutdown,
            offline_directories=offline_directories,
        )

    async def broker_unreachable(self, broker_id: int, broker_epoch: int) -> None:
        """The connection to a broker was closed, and connecting anew was refused: its process is gone."""
        self._require_active()
        await self._watch().unreachable(broker_id, broker_epoch)

    async def unregister_broker(self, broker_id: int) -> None:
        """Take a broker out of the cluster that does not run.

        Raises ApiError BROKER_ID_NOT_REGISTERED, INVALID_REQUEST (it runs).
        """
        await self.for_client(self._remove(broker_id))

    async def _remove(self, broker_id: int) -> None:
        self._require_active()
        await self._watch().remove(broker_id)

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, proposals: "Sequence[PartitionProposal]"
    ) -> list[Outcome[PartitionState]]:
        """Change the ISR of partitions as their leader, broker `broker_id`, proposes; the outcomes in their order.

        Raises ApiError STALE_BROKER_EPOCH.
        """
        from ottla.metadata.controller.isr_alteration import decide_isr_alteration

        before = self.image
        outcomes = await self.decide(
            lambda image: decide_isr_alteration(image, broker_id, broker_epoch, proposals, self._settings.explicit)
        )
        if any(_was_reassigned(before, each) for each in proposals):
            self._look_after_partitions()  # a broker may have come meanwhile that is to have a replica, too
        return outcomes

    async def alter_reassignments(
        self, requests: "Sequence[Reassignment]", *, may_change_factor: bool = True
    ) -> list[Outcome[None]]:
        """Begin or cancel the move of partitions to other brokers; the outcomes in the order of `requests`."""
        from ottla.metadata.controller.reassignment import decide_reassignments

        return await self.decide_for_client(
            lambda image: decide_reassignments(
                image, requests, self._limits, self._settings.explicit, may_change_factor=may_change_factor
            )
        )

    def list_reassignments(self, wanted: Sequence[TopicPartition] | None = None) -> "list[OngoingReassignment]":
        """The partitions on their way to other brokers, of those `wanted`, with None of all."""
        from ottla.metadata.controller.reassignment import ongoing_reassignments

        return ongoing_reassignments(self.image, wanted)

    def partitions_of(self, topic: NewTopic) -> int:
        """How many partitions a topic that is asked for would have; 0 when the request makes no sense."""
        if topic.assignments:
            return len(topic.assignments)
        return self._limits.num_partitions if topic.num_partitions == DEFAULT else max(0, topic.num_partitions)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Outcome[CreatedTopic]]:
        """Create topics; when this returns, they are durable and their partitions on this broker exist."""
        return await self.decide_for_client(
            lambda image: unless_validating(
                decide_topic_creation(image, topics, self._limits, self._rng), validate_only=validate_only
            )
        )

    async def delete_topics(self, topics: Sequence[str | UUID]) -> list[Outcome[TopicImage]]:
        """Delete topics by name or id; the outcomes in the order of `topics`."""
        return await self.decide_for_client(lambda image: decide_topic_deletion(image, topics, self._limits))

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> dict[str, Outcome[int]]:
        """Add partitions to topics; the outcome is a topic's new partition count."""
        return await self.decide_for_client(
            lambda image: unless_validating(
                decide_partition_growth(image, requests, self._limits, self._rng), validate_only=validate_only
            )
        )

    async def alter_configs(
        self, requests: Sequence[ResourceAlteration], *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome[None]]:
        """Change settings of topics and brokers."""

        def decide(image: MetadataImage) -> Decision[dict[ConfigResource, Outcome[None]]]:
            decision = decide_config_alteration(image, requests, self._settings.explicit, self._settings.node_id)
            if validate_only or len(image.brokers) == 1:
                return unless_validating(decision, validate_only=validate_only)
            from ottla.metadata.controller.elr_recount import decide_recount

            changes = decide_recount(image, decision.records, self._settings.explicit)
            return Decision((*decision.records, *changes.records()), decision.result, changes.lines())

        outcomes = await self.decide_for_client(decide)
        if not validate_only:
            self._look_after_partitions()
        return outcomes

    async def elect_leaders(
        self, election: "ElectionType", partitions: Sequence[TopicPartition] | None
    ) -> "ElectionOutcomes":
        """Elect leaders for partitions, with None for all: of each that it was done, or why it was not."""
        return await self.for_client(self._elect_leaders(election, partitions))

    async def _elect_leaders(
        self, election: "ElectionType", partitions: Sequence[TopicPartition] | None
    ) -> "ElectionOutcomes":
        self._require_active()
        return await self._partition_upkeep().elect(election, partitions)

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Finalize levels of features, all or none."""
        await self.decide_for_client(
            lambda image: unless_validating(decide_feature_update(image, updates), validate_only=validate_only)
        )

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[Outcome[None]]:
        """Change quotas of clients; the outcomes in the order of `alterations`."""
        return await self.decide_for_client(
            lambda image: unless_validating(decide_quota_alteration(image, alterations), validate_only=validate_only)
        )

    async def place_replicas(
        self, broker_id: int, broker_epoch: int, places: Sequence[ReplicaPlace]
    ) -> list[Outcome[None]]:
        """A broker says in which of its data directories replicas lie; the outcomes in the order of `places`."""
        return await self.decide(lambda image: decide_replica_directories(image, broker_id, broker_epoch, places))

    async def allocate_producer_ids(self, broker_id: int | None = None, broker_epoch: int = -1) -> range:
        """A block of producer ids that nobody has had and nobody else will get.

        Raises ApiError STALE_BROKER_EPOCH when it is another broker that asks, and not registered with that epoch.
        """

        def decide(image: MetadataImage) -> Decision[range]:
            if broker_id is not None:
                from ottla.metadata.controller.isr_alteration import require_broker_epoch

                require_broker_epoch(image, broker_id, broker_epoch)
            block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
            return Decision((ProducerIdsRecord(block.stop),), block)

        return await self.decide(decide)

    async def decide(self, decide: Decide[T]) -> T:
        """Take a decision and return its result once it is durable and published.

        Raises ApiError NOT_CONTROLLER, and KAFKA_STORAGE_ERROR.
        """
        self._require_active()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(decide, future))
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), "controller")
        return await future

    async def decide_for_client(self, decide: Decide[T]) -> T:
        """As `decide`. Raises ApiError REQUEST_TIMED_OUT, too."""
        return await self.for_client(self.decide(decide))

    async def for_client(self, deciding: Coroutine[Any, Any, T]) -> T:
        """What a decision that a client waits for leads to. Raises ApiError REQUEST_TIMED_OUT while no broker reaches
        the store.
        """
        outage = self.outage
        if outage is None:
            return await deciding
        try:
            return await outage.limit(deciding)
        except ApiError as error:
            # There may be no controller because the store is away: nobody can be elected.
            if error.code is ErrorCode.NOT_CONTROLLER and (reason := await outage.reason()) is not None:
                raise timed_out(reason) from error
            raise

    async def _run(self) -> None:
        """Decide whatever waits, until nothing does."""
        try:
            while self._waiting:
                batch = list(self._waiting)
                self._waiting.clear()
                await self._decide_batch(batch)
        finally:
            self._is_running = False
            while self._waiting:
                self._waiting.popleft().fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed"))

    async def _decide_batch(self, batch: "list[_Waiting]") -> None:
        image = self.image
        from_offset = image.end_offset
        records: list[MetadataRecord] = []
        decided: list[tuple[_Waiting, Any]] = []
        lines: list[LogLine] = []
        for waiting in batch:
            try:
                decision = waiting.decide(image)
            except Exception as error:
                waiting.fail(error)
                continue
            decided.append((waiting, decision.result))
            lines.extend(decision.lines)
            if decision.records:
                records.extend(decision.records)
                if waiting is not batch[-1]:
                    image, _ = apply_records(image, decision.records)
        try:
            if records:
                await self._append(records, self._epoch, from_offset)
                _log(lines)
                await self._loader.advance(records, from_offset=from_offset)
        except StoreError as error:
            failure = self._refused(error)
            for waiting, _ in decided:
                waiting.fail(failure)
            return
        except BaseException:
            for waiting, _ in decided:
                waiting.fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed"))
            raise
        for waiting, result in decided:
            waiting.succeed(result)
        await self._loader.compact(self._epoch)

    def _refused(self, error: StoreError) -> ApiError:
        logger.error("could not change the metadata: %s", error)
        if isinstance(error, FencedError | StaleOffsetError | SessionExpiredError | UnknownOutcomeError):
            self.on_refused(error)
            return ApiError(ErrorCode.NOT_CONTROLLER, f"this broker is not the controller: {error}")
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata cannot be written: {error}")

    async def _append(self, records: Sequence[MetadataRecord], epoch: int, end_offset: int) -> None:
        """Append what was decided on the image that ends there: the store refuses it if the log went on since."""
        if epoch == NO_EPOCH:
            raise FencedError("it resigned, or never was")
        await self._store.append(
            [encode_record(record) for record in records], controller_epoch=epoch, expected_end_offset=end_offset
        )

    def _watch(self) -> "BrokerWatch":
        if self._brokers is None:
            from ottla.metadata.controller.broker_watch import BrokerWatch

            self._brokers = BrokerWatch(
                self, self._store.live_brokers, self._settings, clock=self._clock, timer=self._timer, tasks=self._tasks
            )
            self._brokers.on_liveness = self._look_after_partitions
            self._brokers.on_cut_off = self._is_cut_off
            self._brokers.on_heard = self._hears
            if self.is_active:
                self._brokers.start(self._broker_id)
        return self._brokers

    def _is_cut_off(self) -> bool:
        return self.on_cut_off()

    def _hears(self) -> None:
        self.on_heard()

    def _look_after_partitions(self) -> None:
        """Brokers or settings changed, which may ask for leaders or replicas. One broker alone has nothing to do."""
        if len(self.image.brokers) > 1:
            self._partition_upkeep().look()

    def _partition_upkeep(self) -> "PartitionUpkeep":
        if self._upkeep is None:
            from ottla.metadata.controller.partition_upkeep import PartitionUpkeep

            self._upkeep = PartitionUpkeep(self, self._settings, self._limits, timer=self._timer, tasks=self._tasks)
        return self._upkeep

    def _require_active(self) -> None:
        if self._epoch == NO_EPOCH:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")


def _log(lines: Sequence[LogLine]) -> None:
    for line in lines:
        logger.log(line.level, "%s", line.text)


class _Waiting:
    """A decision somebody waits for."""

    __slots__ = ("_future", "decide")

    def __init__(self, decide: Decide[Any], future: asyncio.Future[Any]) -> None:
        self.decide = decide
        self._future = future

    def succeed(self, result: Any) -> None:
        if not self._future.done():
            self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if not self._future.done():
            self._future.set_exception(error)


def _was_reassigned(image: MetadataImage, proposal: "PartitionProposal") -> bool:
    topic = image.topic_by_id(proposal.topic_id)
    return (
        topic is not None
        and 0 <= proposal.index < len(topic.partitions)
        and topic.partitions[proposal.index].is_reassigned
    )
