"""What members of a group of a stream are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from ottla.gateways.redis.group_giving import GroupGiving
from ottla.model.topic_partition import TopicPartition
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey

if TYPE_CHECKING:
    import pytest


def giving() -> GroupGiving:
    """Of a group whose stream is served elsewhere by now."""
    partition = SimpleNamespace(topic_partition=TopicPartition("orders", 0), leader_epoch=0, log=None)
    opened: Any = SimpleNamespace(
        partition=partition,
        key=ShareKey("billing", UUID(int=1), 0),
        around=SimpleNamespace(reads=None),
        tasks=None,
        stream=None,
        is_current=False,
    )
    return GroupGiving(cast("Any", opened), lambda member_id: None)


def test_settings_that_have_no_effect_on_a_stream_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    given, limits = giving(), ShareLimits(1, 1, 1, read_committed=False)
    for each in (
        limits,
        limits._replace(is_ordered=True),
        limits._replace(is_ordered=True),
        limits._replace(is_ordered=True, weights=(1, 4)),
        limits,
        limits._replace(weights=(1, 4)),
    ):
        assert not given.has_news(each)
    said = "group billing: no effect on the stream of topic orders, whose entries are given out in their order, has "
    assert [each.getMessage() for each in caplog.records] == [
        said + "ottla.delivery.order=key",
        said + "ottla.delivery.order=key and ottla.delivery.priority.weights",
        said + "ottla.delivery.priority.weights",
    ]
