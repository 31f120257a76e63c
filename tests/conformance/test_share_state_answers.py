"""The answers of the share coordinator (APIs 83 to 87), beside those of a real Kafka 4.3.1: the same requests to both.

Kafka answers them to every client; ours only to brokers, so its state machine is asked without a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import pytest

from ottla.protocol.messages import (
    delete_share_group_state,
    find_coordinator,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import ShareStateShard, StateAnswer, WriteState
from ottla.queues.state_batches import StateBatch
from tests.conformance.kafka_broker import kafka_broker
from tests.conformance.needed_peers import needed_peer
from tests.conformance.share_answers import ShareScript, new_tag
from tools.peers import kafka_jars

GROUP = "workers"
AVAILABLE, DONE = 0, 2

DIFFERENT = {
    "a write of a newer leader": "Kafka keeps the epoch of the last leader that read",
    "a write of the leader before": "as before: ours is refused",
    "batches after it": "as before",
    "the newest leader writes": "as before",
    "a write of a newer state epoch": "Kafka writes for whoever knew a group that was deleted since",
    "batches of a newer state epoch": "as before",
    "summary of a newer state epoch": "as before",
    "summary begun anew": "leaders of before stay fenced; Kafka forgets the leader epoch",
    "summary begun anew without an offset": "as before",
    "a write of a deleted group": "as a newer state epoch",
    "batches of a group made again": "as before",
}
"""Answers that are another than Kafka's, and why."""

Answer = tuple[int, str, object]


class Coordinator(Protocol):
    def initialize(self, partition: int, state_epoch: int, start: int) -> Answer: ...

    def read(self, partition: int, leader_epoch: int) -> Answer: ...

    def write(
        self,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete: int,
        batches: Iterable[StateBatch],
    ) -> Answer: ...

    def summary(self, partition: int) -> Answer: ...

    def delete(self, partition: int) -> Answer: ...


class Ours:
    """The state machine by itself, each record of which goes through its bytes."""

    def __init__(self) -> None:
        self._shard = ShareStateShard()

    def initialize(self, partition: int, state_epoch: int, start: int) -> Answer:
        return self._ask(self._shard.handle_initialize, (_key(partition), state_epoch, start))

    def read(self, partition: int, leader_epoch: int) -> Answer:
        return self._ask(
            self._shard.handle_read,
            (_key(partition), leader_epoch),
            lambda state: (state.state_epoch, state.start_offset, [each[:4] for each in state.batches]),
        )

    def write(
        self,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete: int,
        batches: Iterable[StateBatch],
    ) -> Answer:
        request = WriteState(_key(partition), state_epoch, leader_epoch, start, complete, tuple(batches))
        return self._ask(self._shard.handle_write, request)

    def summary(self, partition: int) -> Answer:
        return self._ask(
            self._shard.handle_summary,
            _key(partition),
            lambda state: (state.state_epoch, state.leader_epoch, state.start_offset, state.complete_count),
        )

    def delete(self, partition: int) -> Answer:
        return self._ask(self._shard.handle_delete, _key(partition))

    def _ask(self, handle: Callable[..., Any], request: object, told: Callable[[Any], object] | None = None) -> Answer:
        answers: list[StateAnswer] = []
        outcome = handle(0, request, answers.append)
        for record in outcome.records:
            replayed = self._shard.decode(*self._shard.encode(record))
            assert replayed is not None
            self._shard.replay(replayed)
        for waiter, answer in outcome.answers:
            waiter(answer)
        (answer,) = answers
        told_of = told(answer.state) if told is not None and not answer.error else None
        return int(answer.error), answer.message or "", told_of


def _key(partition: int) -> ShareKey:
    return ShareKey(GROUP, UUID(int=1), partition)


class Kafkas:
    """Kafka's, asked by requests."""

    def __init__(self, script: ShareScript) -> None:
        self._script = script
        self._topic_id = script.make_topic("s", 2)
        key = ShareKey(GROUP, self._topic_id, 0).text
        request = find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
        script.until(lambda: script.peer().ask(request, 6), lambda answer: [answer.coordinators[0].error_code])

    def initialize(self, partition: int, state_epoch: int, start: int) -> Answer:
        messages = initialize_share_group_state
        data = messages.PartitionData(partition, state_epoch, start)
        topic = messages.InitializeStateData(self._topic_id, (data,))
        return self._ask(messages.InitializeShareGroupStateRequest(GROUP, (topic,)), 0)

    def read(self, partition: int, leader_epoch: int) -> Answer:
        messages = read_share_group_state
        topic = messages.ReadStateData(self._topic_id, (messages.PartitionData(partition, leader_epoch),))
        return self._ask(
            messages.ReadShareGroupStateRequest(GROUP, (topic,)),
            0,
            lambda row: (
                row.state_epoch,
                row.start_offset,
                [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in row.state_batches],
            ),
        )

    def write(
        self,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete: int,
        batches: Iterable[StateBatch],
    ) -> Answer:
        messages = write_share_group_state
        stored = tuple(messages.StateBatch(*batch) for batch in batches)
        data = messages.PartitionData(partition, state_epoch, leader_epoch, start, complete, stored)
        topic = messages.WriteStateData(self._topic_id, (data,))
        return self._ask(messages.WriteShareGroupStateRequest(GROUP, (topic,)), 1)

    def summary(self, partition: int) -> Answer:
        messages = read_share_group_state_summary
        topic = messages.ReadStateSummaryData(self._topic_id, (messages.PartitionData(partition, -1),))
        return self._ask(
            messages.ReadShareGroupStateSummaryRequest(GROUP, (topic,)),
            1,
            lambda row: (row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count),
        )

    def delete(self, partition: int) -> Answer:
        messages = delete_share_group_state
        topic = messages.DeleteStateData(self._topic_id, (messages.PartitionData(partition),))
        return self._ask(messages.DeleteShareGroupStateRequest(GROUP, (topic,)), 0)

    def _ask(self, request: Any, version: int, told: Callable[[Any], object] | None = None) -> Answer:
        response = self._script.until(
            lambda: self._script.peer().ask(request, version),
            lambda answer: [answer.results[0].partitions[0].error_code],
        )
        row = response.results[0].partitions[0]
        told_of = told(row) if told is not None and not row.error_code else None
        return row.error_code, row.error_message or "", told_of


def answers_of(of: Coordinator) -> dict[str, Answer]:
    """What a coordinator answers, step by step."""

    def done(first: int, last: int, deliveries: int = 1) -> list[StateBatch]:
        return [StateBatch(first, last, DONE, deliveries)]

    def available(first: int, last: int, deliveries: int = 1) -> list[StateBatch]:
        return [StateBatch(first, last, AVAILABLE, deliveries)]

    return {
        "read without a state": of.read(0, 0),
        "read for nobody without a state": of.read(0, -1),
        "summary without a state": of.summary(0),
        "a write without a state": of.write(0, 0, 0, 0, 0, []),
        "delete without a state": of.delete(0),
        "made with epoch -1": of.initialize(0, -1, 5),
        "read of epoch -1": of.read(0, -1),
        "summary of epoch -1": of.summary(0),
        "begun anew with epoch -1": of.initialize(0, -1, 6),
        "a write with epoch -1": of.write(0, -1, 0, 6, -1, done(6, 7)),
        "batches with epoch -1": of.read(0, -1),
        "begun anew with epoch 4": of.initialize(0, 4, 9),
        "begun anew with epoch 2": of.initialize(0, 2, 9),
        "begun anew with epoch -2": of.initialize(0, -2, 9),
        "batches with epoch 4": of.read(0, -1),
        "a write of leader -1": of.write(0, 4, -1, 9, -1, available(9, 9)),
        "a leader reads": of.read(0, 5),
        "the leader before reads": of.read(0, 4),
        "a leader -7 reads": of.read(0, -7),
        "the leader before writes": of.write(0, 4, 4, 9, -1, available(10, 10)),
        "leader -1 writes still": of.write(0, 4, -1, 9, -1, available(10, 10, 2)),
        "an older state epoch writes": of.write(0, 3, 5, 9, -1, available(11, 11)),
        "state epoch -2 writes": of.write(0, -2, 5, 9, -1, available(11, 11)),
        "state epoch -1 writes": of.write(0, -1, 5, 9, -1, available(11, 11, 3)),
        "batches of all of these": of.read(0, -1),
        "a write of a newer leader": of.write(0, 4, 7, 9, 3, available(12, 12)) and of.summary(0),
        "a write of the leader before": of.write(0, 4, 5, 9, -1, available(13, 13)),
        "batches after it": of.read(0, -1),
        "the newest leader writes": of.write(0, 4, 7, 10, 3, []) and of.read(0, -1),
        "a write of a newer state epoch": of.write(0, 9, 7, -1, 4, done(14, 14)),
        "batches of a newer state epoch": of.read(0, -1),
        "summary of a newer state epoch": of.summary(0),
        "begun anew with that epoch": of.initialize(0, 9, 21),
        "summary begun anew": of.summary(0),
        "begun anew without an offset": of.initialize(0, 10, -1),
        "summary begun anew without an offset": of.summary(0),
        "begun anew, and read": of.read(0, -1),
        "batches that begin below the start": of.write(0, 10, 7, 15, 0, done(5, 20)) and of.read(0, -1),
        "a start that goes back": of.write(0, 10, 7, 10, 0, []) and of.read(0, -1),
        "batches that run backwards": of.write(0, 10, 7, 10, 0, [StateBatch(20, 15, DONE, 1)]) and of.read(0, -1),
        "batches over others": of.write(0, 10, 7, 10, 0, done(12, 17, 3)) and of.read(0, -1),
        "epoch -1 after epoch 10": of.initialize(0, -1, 31),
        "read after epoch -1": of.read(0, -1),
        "another is made, and the first deleted": of.initialize(1, 6, 0) and of.delete(0),
        "deleted, and read": of.read(0, 0),
        "deleted, and read by anybody": of.summary(0),
        "a group that is deleted": of.delete(1),
        "a group that is made again": of.initialize(1, 0, 0),
        "a write of a deleted group": of.write(1, 6, 0, 0, -1, done(0, 9)),
        "batches of a group made again": of.read(1, 0),
    }


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.alone(reason="one broker beside one")
@pytest.mark.proves(client="Kafka's broker", feature="answers of the share coordinator")
def test_the_share_coordinator_answers_as_kafkas(tmp_path: Path) -> None:
    with needed_peer():
        kafka_jars()
    with kafka_broker(tmp_path, {"auto.create.topics.enable": "false"}) as port:
        script = ShareScript(port, new_tag())
        try:
            script.wait_until_ready()
            theirs = answers_of(Kafkas(script))
        finally:
            script.close()
    ours = answers_of(Ours())
    different = {
        label: f"Kafka {theirs[label]}, Ottla {ours[label]}" for label in theirs if ours[label] != theirs[label]
    }
    unlisted = [f"{label}: {both}" for label, both in different.items() if label not in DIFFERENT]
    assert not unlisted, "\n".join(unlisted)
    assert set(DIFFERENT) <= set(different), "what is the same now is to be taken from the list"
