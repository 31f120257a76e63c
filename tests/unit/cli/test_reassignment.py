"""Taking a reassignment back: what has arrived before its turn came stays, and is no failure."""

from typing import Any

import pytest

from ottla.cli import reassignment
from ottla.cli.failure import CommandError
from ottla.cli.reassignment import take_back
from ottla.client.errors import BrokerError
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def answers(monkeypatch: pytest.MonkeyPatch, refused: dict[TopicPartition, ErrorCode]) -> None:
    async def alter(_cluster: Any, wanted: dict[TopicPartition, None]) -> dict[TopicPartition, BrokerError | None]:
        assert set(wanted.values()) == {None}
        return {each: BrokerError(refused[each], f"no: {each}") if each in refused else None for each in wanted}

    monkeypatch.setattr(reassignment, "alter_reassignments", alter)


async def test_what_has_arrived_before_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {FIRST: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS})
    assert await take_back(None, {SECOND, FIRST}) == [SECOND]  # type: ignore[arg-type]


async def test_what_cannot_go_back_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {SECOND: ErrorCode.INVALID_REPLICA_ASSIGNMENT})
    with pytest.raises(CommandError, match=r"no: t-1 \(1 of 2 were refused\)"):
        await take_back(None, {SECOND, FIRST})  # type: ignore[arg-type]
