"""What this broker asks of the controller, wherever that is.

    here          the controller of this broker is asked, without a message
    elsewhere     the broker that the image names is asked, over its channel
    nowhere yet   wait for the next image, or a moment, until the time is up; after a few moments ask the others
                  who it is: this broker may be cut off from the store, and its image an old one

What a client asked for travels in an Envelope, as it stands, with the client's principal and address (KIP-590). The
answer comes back with the offset that the controller's metadata had reached, eight bytes before the response, and is
given to the client when this broker's metadata has reached it too: who creates a topic can use it at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar
from uuid import UUID

from msgspec.structs import astuple

from ottla.client.errors import ClientError, ProtocolViolationError, error_code
from ottla.client.io.retry import Deadline
from ottla.metadata.controller.broker_watch import HeartbeatAnswer
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.controller.topic_creation import CreatedTopic, NewTopic
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal, broker_principal
from ottla.peers.broker_channels import CONTROLLER, FORWARD, HEARTBEAT, BrokerChannels, Lane
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.protocol.messages.assign_replicas_to_dirs import DirectoryData as DirectoryOfReplicas
from ottla.protocol.messages.assign_replicas_to_dirs import PartitionData as PartitionOfReplica
from ottla.protocol.messages.assign_replicas_to_dirs import TopicData as TopicOfReplicas
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.default_principal import DefaultPrincipalData
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=ApiMessage)
T = TypeVar("T")

RETRY_MS: Final = 50
"""How long to wait before the controller is looked for again, when no image says that it moved."""
LOOK_AFTER: Final = 10
"""After so many attempts without an image that says more, the other brokers are asked who the controller is."""
LOOK_MS_MAX: Final = 1_000
"""How long each of them is asked."""
ATTEMPT_MS_MAX: Final = 10_000
"""How long one broker is asked, before another may be the controller."""
OWN_REQUEST_MS: Final = 10_000
"""How long this broker tries to have something decided in its own name."""
CATCH_UP_MS_MAX: Final = 1_000
"""How long an answer waits for this broker's metadata: without the store, for a while, it would wait forever."""
OFFSET_BYTES: Final = 8
OWN: Final = 1
"""The source of a setting that a topic sets itself (`DYNAMIC_TOPIC_CONFIG`)."""

_LENGTH_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = b"\x00\x00"


class ControllerChannel:
    """Belongs to the event loop; its methods may be called concurrently."""

    def __init__(
        self,
        controller: Controller,
        publisher: MetadataPublisher,
        channels: BrokerChannels,
        broker_epoch: Callable[[], int],
        *,
        clock: Clock,
        timer: Timer,
    ) -> None:
        """`broker_epoch` is that of the newest session of this broker."""
        self._controller = controller
        self._publisher = publisher
        self._channels = channels
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._timer = timer
        self._unheard = 0
        self._told: tuple[int, int] | None = None
        """A controller that another broker named while the image was at this controller epoch."""

    @property
    def is_here(self) -> bool:
        """Whether this broker is the controller."""
        return self._controller.is_active

    def deadline(self, timeout_ms: int) -> Deadline:
        """A point in time from now."""
        return Deadline(self._clock, timeout_ms)

    async def request(self, message: ApiMessage, response: type[R], *, timeout_ms: int, lane: Lane = CONTROLLER) -> R:
        """Ask the broker that is the controller now, once. Raises ApiError NOT_CONTROLLER when none is elsewhere, and
        ClientError.
        """
        image = self._publisher.image
        controller_id = image.controller_id
        if self._told is not None and self._told[0] == image.controller_epoch:
            controller_id = self._told[1]
        if controller_id in (-1, self._channels.broker_id):
            raise ApiError(ErrorCode.NOT_CONTROLLER, "there is no controller at the moment")
        return await self._channels.request(controller_id, message, response, timeout_ms=timeout_ms, lane=lane)

    async def forward(
        self, frame: bytes | memoryview, principal: Principal, client_address: bytes, deadline: Deadline
    ) -> memoryview | None:
        """Send on a request, header and message, and return the response to it, in the same form.

        None when this broker is, or has become, the controller. Raises ApiError: NOT_CONTROLLER when the time is up
        and nobody decided, or the error with which the controller refused the envelope.
        """
        envelope = EnvelopeRequest(
            request_data=bytes(frame), request_principal=encode_principal(principal), client_host_address=client_address
        )

        async def ask(timeout_ms: int) -> memoryview | None:
            answer = await self.request(envelope, EnvelopeResponse, timeout_ms=timeout_ms, lane=FORWARD)
            _require_decided(answer.error_code, "the controller refused the envelope")
            data = memoryview(answer.response_data or b"")
            await self._reached(int.from_bytes(data[:OFFSET_BYTES], "big"))
            return data[OFFSET_BYTES:]

        return await self._decided(ask, deadline)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Outcome[CreatedTopic]]:
        """Create topics in this broker's name; who asked for them has been found to be allowed to.

        Raises ApiError as `Controller.create_topics`.
        """
        if self.is_here:
            return await self._controller.create_topics(topics, validate_only=validate_only)
        request = CreateTopicsRequest(tuple(map(_creatable, topics)), OWN_REQUEST_MS, validate_only)
        frame = encode_request(0, None, request, CreateTopicsRequest.MAX_VERSION)[_LENGTH_BYTES:]
        answered = await self._controller.for_client(
            self.forward(frame, broker_principal(self._channels.broker_id), b"", self.deadline(OWN_REQUEST_MS))
        )
        if answered is None:
            return await self._controller.create_topics(topics, validate_only=validate_only)
        _, response = decode_response(CreateTopicsRequest.API_KEY, CreateTopicsRequest.MAX_VERSION, answered)
        assert isinstance(response, CreateTopicsResponse)
        return {
            each.name: ApiError(error_code(each.error_code), each.error_message or "")
            if each.error_code
            else CreatedTopic(
                each.name,
                each.topic_id,
                each.num_partitions,
                each.replication_factor,
                {config.name: config.value or "" for config in each.configs or () if config.config_source == OWN},
            )
            for each in response.topics
        }

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids. Raises ApiError as `Controller.allocate_producer_ids`."""

        async def ask(timeout_ms: int) -> range:
            request = AllocateProducerIdsRequest(self._channels.broker_id, self._broker_epoch())
            answer = await self.request(request, AllocateProducerIdsResponse, timeout_ms=timeout_ms)
            _require_decided(answer.error_code, "the controller gives out no producer ids")
            return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

        block = await self._decided(ask, self.deadline(OWN_REQUEST_MS))
        return await self._controller.allocate_producer_ids() if block is None else block

    async def alter_partition(self, proposals: Sequence[PartitionProposal]) -> list[Outcome[PartitionState]]:
        """Propose the ISR of partitions that this broker leads, once; the outcomes in the order of `proposals`.

        Of the replicas an outcome says nothing when the controller is elsewhere.

        Raises ApiError, and ClientError, of which all but BrokerUnreachableError may come after it was decided.
        """
        broker_id = self._channels.broker_id
        if self.is_here:
            return await self._controller.alter_partition(broker_id, self._broker_epoch(), proposals)
        # One entry for each proposal: the answer has them in the same order.
        topics = tuple(
            TopicData(
                each.topic_id,
                (
                    PartitionData(
                        each.index,
                        each.leader_epoch,
                        new_isr_with_epochs=tuple(BrokerState(*member) for member in each.isr),
                        partition_epoch=each.partition_epoch,
                    ),
                ),
            )
            for each in proposals
        )
        answer = await self.request(
            AlterPartitionRequest(broker_id, self._broker_epoch(), topics),
            AlterPartitionResponse,
            timeout_ms=OWN_REQUEST_MS,
        )
        _require_decided(answer.error_code, "the controller takes no ISR from this broker")
        results = [each for topic in answer.topics for each in topic.partitions]
        if len(results) != len(proposals):
            raise ProtocolViolationError("the controller answered another number of proposals than it was sent")
        return [
            ApiError(error_code(each.error_code))
            if each.error_code
            else PartitionState(each.leader_id, each.leader_epoch, (), each.isr, each.partition_epoch)
            for each in results
        ]

    async def place_replicas(self, places: Sequence[ReplicaPlace]) -> list[Outcome[None]]:
        """Say in which of this broker's log directories replicas lie (`Controller.place_replicas`).

        Raises ApiError, NOT_CONTROLLER among them when the time is up.
        """
        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for topic_id, index, directory_id in map(astuple, places):
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)

        async def ask(timeout_ms: int) -> list[Outcome[None]]:
            request = AssignReplicasToDirsRequest(
                self._channels.broker_id,
                self._broker_epoch(),
                tuple(
                    DirectoryOfReplicas(
                        directory_id,
                        tuple(
                            TopicOfReplicas(topic_id, tuple(map(PartitionOfReplica, indexes)))
                            for topic_id, indexes in topics.items()
                        ),
                    )
                    for directory_id, topics in directories.items()
                ),
            )
            answer = await self.request(request, AssignReplicasToDirsResponse, timeout_ms=timeout_ms)
            _require_decided(answer.error_code, "the controller does not note where replicas lie")
            codes = {
                ReplicaPlace(topic.topic_id, each.partition_index, directory.id): each.error_code
                for directory in answer.directories
                for topic in directory.topics
                for each in topic.partitions
            }
            return [ApiError(error_code(codes[each])) if codes.get(each) else None for each in places]

        outcomes = await self._decided(ask, self.deadline(OWN_REQUEST_MS))
        if outcomes is None:
            return await self._controller.place_replicas(self._channels.broker_id, self._broker_epoch(), places)
        return outcomes

    async def heartbeat(
        self,
        *,
        want_fence: bool = False,
        want_shutdown: bool,
        offline_directories: frozenset[UUID] = frozenset(),
        timeout_ms: int,
    ) -> HeartbeatAnswer:
        """Tell the controller that this broker lives. Raises ApiError as `Controller.heartbeat`, and ClientError.

        After a few that nobody heard the other brokers are asked who the controller is.
        """
        broker_id, broker_epoch = self._channels.broker_id, self._broker_epoch()
        metadata_offset = self._publisher.image.end_offset
        if self.is_here:
            return await self._controller.heartbeat(
                broker_id,
                broker_epoch,
                metadata_offset,
                want_fence=want_fence,
                want_shutdown=want_shutdown,
                offline_directories=offline_directories,
            )
        request = BrokerHeartbeatRequest(
            broker_id, broker_epoch, metadata_offset, want_fence, want_shutdown, tuple(offline_directories)
        )
        image = self._publisher.image
        try:
            answer = await self.request(request, BrokerHeartbeatResponse, timeout_ms=timeout_ms, lane=HEARTBEAT)
            _require_decided(answer.error_code, "the controller does not know this broker")
        except (ClientError, ApiError) as error:
            self._unheard += 1
            is_silent = isinstance(error, ClientError)  # it took its time to be that
            if self._publisher.image is image and (is_silent or self._unheard % LOOK_AFTER == 0):
                await self._look(image, self.deadline(timeout_ms))
            raise
        self._unheard = 0
        return HeartbeatAnswer(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)

    async def _decided(self, ask: Callable[[int], Awaitable[T]], deadline: Deadline) -> T | None:
        """What the controller answers to `ask`, which is asked again while nobody decides; None when it is here.

        Raises ApiError NOT_CONTROLLER when the time is up, and what else `ask` raises.
        """
        attempts = 0
        while not self.is_here:
            image = self._publisher.image
            try:
                return await ask(max(min(deadline.left_ms, ATTEMPT_MS_MAX), 1))
            except ClientError as error:
                logger.debug("the controller did not answer: %s", error)
            except ApiError as error:
                if error.code not in _MAY_SUCCEED_LATER:
                    raise
            if deadline.passed:
                raise ApiError(ErrorCode.NOT_CONTROLLER, f"no controller answered within {deadline.timeout_ms} ms")
            if self._publisher.image is image:
                await self._within(self._publisher.reached(image.end_offset + 1), RETRY_MS)
            attempts += 1
            if attempts % LOOK_AFTER == 0 and self._publisher.image is image:
                await self._look(image, deadline)
        return None

    async def _look(self, image: MetadataImage, deadline: Deadline) -> None:
        """Ask the other brokers which one is the controller, until one names another than the image does."""
        for broker_id in image.brokers:
            timeout_ms = min(deadline.left_ms, LOOK_MS_MAX)
            if broker_id in (self._channels.broker_id, image.controller_id) or timeout_ms <= 0:
                continue
            try:
                answer = await self._channels.request(
                    broker_id, MetadataRequest(topics=()), MetadataResponse, timeout_ms=timeout_ms
                )
            except ClientError as error:
                logger.debug("broker %d does not say who the controller is: %s", broker_id, error)
                continue
            if answer.controller_id not in (-1, self._channels.broker_id, image.controller_id):
                self._told = image.controller_epoch, answer.controller_id
                return

    async def _reached(self, end_offset: int) -> None:
        """Return when this broker's metadata has reached an offset, or will not have soon."""
        if self._publisher.image.end_offset < end_offset:
            await self._within(self._publisher.reached(end_offset), CATCH_UP_MS_MAX)

    async def _within(self, event: asyncio.Future[None], timeout_ms: int) -> None:
        def give_up() -> None:
            if not event.done():
                event.set_result(None)

        task = self._timer.schedule(timeout_ms, give_up)
        try:
            await event
        finally:
            task.cancel()


_MAY_SUCCEED_LATER: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH})


def _require_decided(code: int, what: str) -> None:
    if code != ErrorCode.NONE:
        raise ApiError(error_code(code), what)


def encode_principal(principal: Principal) -> bytes:
    """A principal as Kafka's default principal builder writes it: the version, then the data."""
    return _PRINCIPAL_VERSION + DefaultPrincipalData(principal.type, principal.name, principal.by_token).encode(0)


def decode_principal(data: bytes | memoryview, host: str = "") -> Principal:
    """The reverse, for a client of that address. Raises InvalidInputError."""
    decoded = DefaultPrincipalData.decode(0, data, len(_PRINCIPAL_VERSION))
    return Principal(decoded.type, decoded.name, host, decoded.token_authenticated)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(CreatableReplicaAssignment(index, tuple(brokers)) for index, brokers in topic.assignments),
        tuple(CreatableTopicConfig(name, value) for name, value in topic.configs.items()),
    )
