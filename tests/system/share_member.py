"""A member of a share group that speaks the wire: joins, fetches and settles as a test tells it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

from ottla.model.error_code import ErrorCode
from ottla.native import decode_records
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages import share_acknowledge as acknowledge
from ottla.protocol.messages import share_fetch as fetch
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.cluster import wait_until
from tests.hostile.raw_peer import RawPeer

# What a coordinator answers while its partition is made and loaded.
WAITS = (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def acquired_in(answer: Any) -> dict[int, list[tuple[int, int, int]]]:
    """What was acquired, by partition: first and last offset and delivery count."""
    return {
        each.partition_index: [(a.first_offset, a.last_offset, a.delivery_count) for a in each.acquired_records]
        for topic in answer.responses
        for each in topic.partitions
        if each.acquired_records
    }


class ShareMember:
    """One member on a connection of its own; heartbeats are sent when the test asks for something that needs them."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        self.peer = RawPeer(port)
        self.group = group
        self.topic = topic
        self.member_id = uuid4().hex
        self.epoch = 0
        self.session_epoch = 0
        self.assigned: dict[UUID, tuple[int, ...]] = {}
        self.peer.ask(FindCoordinatorRequest("", 0, (group,)), 4)

    def heartbeat(self, epoch: int | None = None) -> Any:
        """Send one and take over what it says."""
        at = self.epoch if epoch is None else epoch
        names = (self.topic,) if at == 0 else None
        request = ShareGroupHeartbeatRequest(self.group, self.member_id, at, None, names)
        answer = self.peer.ask(request, 1)
        if not answer.error_code and at >= 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return answer

    def join(self, partitions: int) -> ShareMember:
        """Join, and wait until so many partitions are assigned."""
        self.until(lambda: sum(map(len, self.assigned.values())) >= partitions)
        return self

    def until(self, condition: Callable[[], bool]) -> None:
        """Send heartbeats until something holds."""
        wait_until(lambda: self._holds(condition), "what a share member waits for", 60)

    def _holds(self, condition: Callable[[], bool]) -> bool | None:
        answer = self.heartbeat()
        if answer.error_code not in WAITS:
            raise AssertionError(f"the heartbeat says {ErrorCode(answer.error_code).name}: {answer.error_message}")
        return condition() or None

    def _fetch_request(
        self,
        *,
        max_wait_ms: int = 500,
        max_records: int = 500,
        mode: int = 0,
        settles: dict[int, list[tuple[int, int, int]]] | None = None,
        session_epoch: int | None = None,
    ) -> fetch.ShareFetchRequest:
        settles = settles or {}
        topics = tuple(
            fetch.FetchTopic(
                topic_id,
                tuple(
                    fetch.FetchPartition(
                        index,
                        tuple(fetch.AcknowledgementBatch(f, e, (kind,)) for f, e, kind in settles.get(index, [])),
                    )
                    for index in indexes
                ),
            )
            for topic_id, indexes in self.assigned.items()
        )
        at = self.session_epoch if session_epoch is None else session_epoch
        return fetch.ShareFetchRequest(
            self.group, self.member_id, at, max_wait_ms, 1, 1 << 20, max_records, max_records, mode, False, topics, ()
        )

    def fetch_raw(self, *, session_epoch: int | None = None, **how: Any) -> Any:
        """A ShareFetch of all that is assigned."""
        answer = self.peer.ask(self._fetch_request(session_epoch=session_epoch, **how), 2)
        if not answer.error_code and session_epoch is None:
            self.session_epoch += 1
        return answer

    def begin_fetch(self) -> Callable[[], dict[int, list[tuple[int, int, int]]]]:
        """Send a fetch that waits for longer than the connection does; what is returned receives its answer."""
        request = self._fetch_request(max_wait_ms=300_000)
        self.peer.send(encode_request(0, "hostile", request, 2))
        self.session_epoch += 1

        def receive() -> dict[int, list[tuple[int, int, int]]]:
            frame = self.peer.receive_frame()
            answer: Any = decode_response(request.API_KEY, 2, frame)[1]
            assert answer.error_code == ErrorCode.NONE
            return acquired_in(answer)

        return receive

    def fetch(self, **how: Any) -> dict[int, list[tuple[int, int, int]]]:
        """What was acquired, by partition: first and last offset and delivery count."""
        answer = self.fetch_raw(**how)
        assert answer.error_code == ErrorCode.NONE
        return acquired_in(answer)

    def values(self, **how: Any) -> list[bytes | None]:
        """The values of the records that were acquired."""
        found: list[bytes | None] = []
        for topic in self.fetch_raw(**how).responses:
            for each in topic.partitions:
                wanted = {o for a in each.acquired_records for o in range(a.first_offset, a.last_offset + 1)}
                records = decode_records(each.records, max_decompressed_bytes=1 << 20) if each.records else []
                found += [value for offset, _, _, value, _ in records if offset in wanted]
        return found

    def settle(self, *runs: tuple[int, int, int], partition: int = 0, session_epoch: int | None = None) -> int:
        """Settle records of a partition, and return the error code."""
        (topic_id,) = self.assigned
        batches = tuple(acknowledge.AcknowledgementBatch(first, last, (kind,)) for first, last, kind in runs)
        topic = acknowledge.AcknowledgeTopic(topic_id, (acknowledge.AcknowledgePartition(partition, batches),))
        at = self.session_epoch if session_epoch is None else session_epoch
        renews = any(kind == 4 for _, _, kind in runs)
        request = acknowledge.ShareAcknowledgeRequest(self.group, self.member_id, at, renews, (topic,))
        answer = self.peer.ask(request, 2)
        if answer.error_code:
            return int(answer.error_code)
        self.session_epoch += 1
        (code,) = {each.error_code for topic in answer.responses for each in topic.partitions}
        return int(code)
