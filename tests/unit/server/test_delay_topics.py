"""Each partition of a delay topic has one at a time who moves what is due."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.metadata.image.image import topic_resource
from ottla.server import delay_mover
from ottla.server.delay_topics import DelayTopics
from ottla.settings.topic_settings import DELIVER_TO

NODE_ID = 1
STEPS = 20


class Environment:
    class Tasks:
        def spawn(self, coroutine: Any, name: str) -> asyncio.Task[Any]:
            return asyncio.get_running_loop().create_task(coroutine, name=name)

    tasks = Tasks()


class Case:
    """Movers that end when they are let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.epoch = 0
        self.moving: list[int] = []
        self.may_end = asyncio.Event()
        case = self

        class Mover:
            def __init__(self, partition: Any, *_: object, **__: object) -> None:
                self._epoch = partition.leader_epoch

            async def run(self) -> None:
                case.moving.append(self._epoch)
                try:
                    await asyncio.Event().wait()
                finally:
                    await case.may_end.wait()
                    case.moving.remove(self._epoch)

        monkeypatch.setattr(delay_mover, "DelayMover", Mover)
        replicas = SimpleNamespace(find=lambda *_: SimpleNamespace(is_leader=True, leader_epoch=self.epoch))
        given = cast("Any", SimpleNamespace(disk=None))
        self.topics = DelayTopics(
            NODE_ID, cast("Any", Environment()), cast("Any", replicas), given, given, given, own_client=lambda: given
        )

    async def lead_in(self, *epochs: int) -> None:
        for self.epoch in epochs:
            partition = SimpleNamespace(index=0, leader=NODE_ID, leader_epoch=self.epoch)
            topic = SimpleNamespace(partitions=[partition])
            own = {DELIVER_TO: "jobs"}
            image = SimpleNamespace(
                configs={topic_resource("later"): own}, topic=lambda _, it=topic: it, config=lambda _, it=own: it
            )
            self.topics.load(cast("Any", image))
        for _ in range(STEPS):
            await asyncio.sleep(0)


@pytest.mark.parametrize("epochs", [(2,), (2, 3), (2, 3, 4)])
def test_nobody_moves_before_all_who_moved_have_ended(epochs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        case = Case(monkeypatch)
        try:
            await case.lead_in(1)
            assert case.moving == [1]
            await case.lead_in(*epochs)
            assert case.moving == [1]
            case.may_end.set()
            await case.lead_in(epochs[-1])
            assert case.moving == [epochs[-1]]
            await case.topics.close()
            assert case.moving == []
        finally:
            case.may_end.set()  # or nothing of a test that fails would end

    asyncio.run(run())
