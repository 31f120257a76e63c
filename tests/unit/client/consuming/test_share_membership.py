"""What a member of a share group says after an answer that did not arrive."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from ottla.client import ClientOptions
from ottla.client.consuming.share_membership import ShareMembership
from ottla.client.consuming.share_options import ShareConsumerOptions
from ottla.client.errors import broker_error
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.runtime.timer import Timer

TOPIC = UUID(int=1)


async def test_after_a_lost_answer_a_member_says_its_topics_again_to_be_told_its_partitions() -> None:
    asked: list[ShareGroupHeartbeatRequest] = []
    cluster = Cluster(ClientOptions.of("localhost:1"), AsyncioIo())

    async def ask_coordinator(group: str, request: ShareGroupHeartbeatRequest, response: object) -> object:
        asked.append(request)
        if len(asked) == 3:
            raise broker_error(ErrorCode.NOT_COORDINATOR, "heartbeat")
        is_assigned = len(asked) == 4 and request.subscribed_topic_names is not None
        assignment = Assignment((TopicPartitions(TOPIC, (0,)),)) if is_assigned else None
        return ShareGroupHeartbeatResponse(
            member_id="m", member_epoch=2, heartbeat_interval_ms=5_000, assignment=assignment
        )

    cluster.ask_coordinator = ask_coordinator  # type: ignore[assignment]
    timer = cast("Timer", SimpleNamespace(schedule=lambda *asked: None))
    member = ShareMembership(cast("Any", cluster), ShareConsumerOptions("g"), timer)
    member.subscribe(("jobs",))
    member.be_in()
    for _ in range(4):
        await member._heartbeat()
    assert [each.subscribed_topic_names for each in asked] == [("jobs",), None, None, ("jobs",)]
    assert [each.member_epoch for each in asked] == [0, 2, 2, 2]
    assert member.assigned == {(TOPIC, 0)}
    cluster.close()
