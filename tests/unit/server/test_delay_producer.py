"""Who delivers of a delay topic is the producer of its partition, and knows what the one before has committed."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.errors import RequestTimedOutError
from ottla.client.options import ClientOptions
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import SystemClock
from ottla.server import delay_producer
from ottla.server.delay_producer import become_producer

PLACE = TopicPartition("later", 3)
COMMITTED = CommittedOffset(7, 2, "5:6:8")


class Io:
    bootstrap = "127.0.0.1:9092"
    clock = SystemClock()


class Case:
    """What was done, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.ids: list[str | None] = []
        self.fails = False
        case = self

        class Producer:
            def __init__(self, _options: ClientOptions, producing: ProducerOptions, **_: object) -> None:
                case.ids.append(producing.transactional_id)

            async def start(self) -> None:
                case.done.append("start")

            async def init_transactions(self) -> None:
                case.done.append("fence")

            async def close(self, *, deliver: bool) -> None:
                case.done.append(f"close, deliver={deliver}")

        class Cluster:
            def __init__(self, *_: object) -> None: ...

            async def connect(self) -> None: ...

            def close(self) -> None:
                case.done.append("disconnect")

        async def committed_offsets(_cluster: object, group: str, *_: object) -> dict[TopicPartition, CommittedOffset]:
            case.done.append(f"read {group}")
            if case.fails:
                raise RequestTimedOutError("no answer")
            return {PLACE: COMMITTED}

        monkeypatch.setattr(delay_producer, "Producer", Producer)
        monkeypatch.setattr(delay_producer, "Cluster", Cluster)
        monkeypatch.setattr(delay_producer, "committed_offsets", committed_offsets)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(monkeypatch)


def test_the_progress_is_read_after_the_producer_before_is_fenced(case: Case) -> None:
    _, committed = asyncio.run(become_producer(PLACE, cast("Any", Io())))

    assert committed == COMMITTED
    assert case.ids == ["ottla.deliver.later-3"]
    assert case.done == ["start", "fence", "read ottla.deliver.later", "disconnect"]


def test_a_producer_is_closed_when_the_progress_cannot_be_read(case: Case) -> None:
    case.fails = True
    with pytest.raises(RequestTimedOutError):
        asyncio.run(become_producer(PLACE, cast("Any", Io())))

    assert case.done[-2:] == ["disconnect", "close, deliver=False"]
