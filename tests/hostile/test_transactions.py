"""Strangers among transactions: what they ask for is refused, and the transaction that is open goes on untouched."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker_process import LOG_LINE, BrokerProcess
from tests.hostile.conftest import create_topic
from tests.hostile.raw_peer import RawPeer

FORGED = "t\nottla: a forged line\r\x1b[2J\u202e\u2028"
LONG = "x" * 30_000
WAIT_S = 60
RETRIABLE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class Victim:
    """A producer with a transaction open, which has one record in partition 0 of its topic."""

    def __init__(self, broker: BrokerProcess, peer: RawPeer) -> None:
        self.name = f"victim-{uuid4().hex[:8]}"
        self._bootstrap = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        create_topic(broker.port, self.name, 2)
        self._producer = Producer({**self._bootstrap, "transactional.id": self.name, "transaction.timeout.ms": 900_000})
        self._producer.init_transactions(WAIT_S)
        self._producer.begin_transaction()
        self._producer.produce(self.name, b"first", partition=0)
        self._producer.flush(WAIT_S)
        (found,) = peer.ask(DescribeTransactionsRequest(transactional_ids=(self.name,)), 0).transaction_states
        self.producer_id, self.epoch = found.producer_id, found.producer_epoch

    def goes_on(self) -> None:
        """Write, commit, and see that readers of committed records get exactly that."""
        self._producer.produce(self.name, b"second", partition=0)
        self._producer.commit_transaction(WAIT_S)
        consumer = Consumer(
            {
                **self._bootstrap,
                "group.id": self.name,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        found: list[bytes | None] = []
        for partition, at_least in ((0, 2), (1, 0)):
            consumer.assign([TopicPartition(self.name, partition, 0)])
            while True:
                message = consumer.poll(WAIT_S)
                assert message is not None
                error = message.error()
                if error is None:
                    found.append(message.value())
                    continue
                assert error.code() == KafkaError._PARTITION_EOF
                if len(found) >= at_least:  # the marker may come after the answer to the commit
                    break
        consumer.close()
        assert found == [b"first", b"second"]


def find_coordinators(peer: RawPeer) -> None:
    """Have the topics of the coordinators made."""
    for key_type in (0, 1):
        wanted = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g",))
        while peer.ask(wanted, 6).coordinators[0].error_code:
            pass


@pytest.fixture
def victim(broker: BrokerProcess, peer: RawPeer) -> Iterator[Victim]:
    """Whatever a test does, the victim's transaction is committed in the end."""
    find_coordinators(peer)
    victim = Victim(broker, peer)
    yield victim
    victim.goes_on()
    assert peer.is_served()


def init(peer: RawPeer, transactional_id: str, timeout_ms: int = 1_000, producer_id: int = -1, epoch: int = -1) -> int:
    request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch)
    while (error := int(peer.ask(request, 4).error_code)) in RETRIABLE:
        pass
    return error


def test_producers_that_cannot_be_are_not_made(peer: RawPeer, victim: Victim):
    for name in ("", LONG):
        assert init(peer, name) == ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, 2**31 - 1):
        assert init(peer, "t", timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert init(peer, "t", producer_id=5) == ErrorCode.INVALID_REQUEST
    assert init(peer, "t", epoch=5) == ErrorCode.INVALID_REQUEST
    for producer_id, epoch in ((victim.producer_id + 9, victim.epoch), (victim.producer_id, victim.epoch + 5)):
        assert init(peer, victim.name, 1_000, producer_id, epoch) == ErrorCode.PRODUCER_FENCED


def add(
    transactional_id: str, producer_id: int, epoch: int, *topics: AddPartitionsToTxnTopic
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )


def test_strangers_add_nothing_to_a_transaction(peer: RawPeer, victim: Victim):
    own = AddPartitionsToTxnTopic(victim.name, (1,))
    epoch, internal = victim.epoch, AddPartitionsToTxnTopic("__transaction_state", tuple(range(50)))
    strange_names = (AddPartitionsToTxnTopic(name, (0,)) for name in (FORGED, LONG, ""))
    for request, errors in (
        (add("nobody", 1, 0, own), {ErrorCode.INVALID_PRODUCER_ID_MAPPING}),
        (add(victim.name, victim.producer_id + 9, epoch, own), {ErrorCode.INVALID_PRODUCER_ID_MAPPING}),
        (add(victim.name, victim.producer_id, epoch + 9, own), {ErrorCode.PRODUCER_FENCED}),
        (add(victim.name, victim.producer_id, -1, own), {ErrorCode.PRODUCER_FENCED}),
        (add(LONG, victim.producer_id, epoch, own), {ErrorCode.INVALID_REQUEST}),
        (
            add(victim.name, victim.producer_id, epoch, own, internal),
            {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        ),
        (
            add(victim.name, victim.producer_id, epoch, AddPartitionsToTxnTopic(victim.name, tuple(range(100_000)))),
            {ErrorCode.TRANSACTION_ABORTABLE},
        ),
        (add(victim.name, victim.producer_id, epoch, *strange_names), {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    ):
        answer = peer.ask(request, 3).results_by_topic_v3_and_below
        found = {each.partition_error_code for topic in answer for each in topic.results_by_partition}
        assert found == errors, request.v3_and_below_transactional_id[:20]
    assert peer.ask(AddOffsetsToTxnRequest("nobody", 1, 0, "g"), 4).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    offsets = AddOffsetsToTxnRequest(victim.name, victim.producer_id + 1, epoch, LONG)
    assert peer.ask(offsets, 4).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_strangers_end_no_transaction(peer: RawPeer, victim: Victim):
    for transactional_id, producer_id, epoch, error in (
        ("nobody", 1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (victim.name, victim.producer_id + 1, victim.epoch, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (victim.name, victim.producer_id, victim.epoch + 3, ErrorCode.PRODUCER_FENCED),
        (victim.name, victim.producer_id, victim.epoch - 1, ErrorCode.PRODUCER_FENCED),
        (victim.name, victim.producer_id, -32_768, ErrorCode.PRODUCER_FENCED),
        (LONG, victim.producer_id, victim.epoch, ErrorCode.INVALID_REQUEST),
    ):
        for committed in (True, False):
            assert peer.ask(EndTxnRequest(transactional_id, producer_id, epoch, committed), 5).error_code == error


def test_markers_that_come_too_early_or_for_nobody_end_nothing(peer: RawPeer, victim: Victim):
    def mark(producer_id: int, epoch: int, topic: str, *partitions: int, committed: bool = False) -> set[int]:
        topics = (WritableTxnMarkerTopic(topic, partitions),)
        marker = WritableTxnMarker(producer_id, epoch, committed, topics, 0, 2)
        (answer,) = peer.ask(WriteTxnMarkersRequest((marker,)), 2).markers
        return {each.error_code for found in answer.topics for each in found.partitions}

    refused = mark(victim.producer_id, victim.epoch + 1, victim.name, 0, committed=True)
    assert refused == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert mark(999, 0, "nope", 0) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert mark(999, 0, FORGED, 0) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    # Of version 2 a marker has an epoch above that of the records.
    assert mark(victim.producer_id, victim.epoch, victim.name, 0) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert mark(victim.producer_id, -1, victim.name, 0) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in mark(999, 0, victim.name, *range(-1, 100_000))


def test_strangers_commit_no_offsets_in_a_transaction(peer: RawPeer, victim: Victim):
    def commit(
        transactional_id: str,
        group: str,
        producer_id: int,
        epoch: int,
        *,
        count: int = 1,
        metadata: str = "",
        generation: int = -1,
        member: str = "",
    ) -> set[int]:
        partitions = tuple(TxnOffsetCommitRequestPartition(index, 5, -1, metadata) for index in range(count))
        topics = (TxnOffsetCommitRequestTopic(victim.name, partitions),)
        request = TxnOffsetCommitRequest(transactional_id, group, producer_id, epoch, generation, member, topics=topics)
        while True:
            found = {each.error_code for topic in peer.ask(request, 5).topics for each in topic.partitions}
            if found.isdisjoint(RETRIABLE):
                return found

    group = victim.name
    assert commit("nobody", group, 1, 0) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert commit(victim.name, group, victim.producer_id + 1, victim.epoch) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert commit(victim.name, group, victim.producer_id, victim.epoch + 4) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert commit(victim.name, LONG, victim.producer_id, victim.epoch) == {ErrorCode.INVALID_GROUP_ID}
    assert commit(victim.name, "", victim.producer_id, victim.epoch) == {ErrorCode.INVALID_GROUP_ID}
    strange = commit(victim.name, group, victim.producer_id, victim.epoch, generation=5, member=FORGED)
    assert strange == {ErrorCode.ILLEGAL_GENERATION}
    many = commit(victim.name, group, victim.producer_id, victim.epoch, count=5_000, metadata="m" * 5_000)
    assert many == {ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_who_asks_about_very_many_is_told_of_each(peer: RawPeer, victim: Victim):
    names = tuple(f"nobody-{number}" for number in range(50_000))
    states = peer.ask(DescribeTransactionsRequest(transactional_ids=(*names, FORGED, LONG)), 0).transaction_states
    assert {each.error_code for each in states[:-1]} == {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    assert len(states) == len(names) + 2
    wanted = (TopicRequest(victim.name, tuple(range(-1, 100_000))), TopicRequest(FORGED, (0,)))
    topics = peer.ask(DescribeProducersRequest(wanted), 0).topics
    assert [len(topic.partitions) for topic in topics] == [100_001, 1]
    wrong = ErrorCode.INVALID_REGULAR_EXPRESSION
    for pattern, error in (("(a+)+$", 0), ("((((", wrong), (LONG, wrong)):
        found = peer.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert (found.error_code, found.transaction_states) == (error, ())
    unknown = tuple(f"{FORGED}{number}" for number in range(5_000))
    assert peer.ask(ListTransactionsRequest(state_filters=unknown), 2).unknown_state_filters == unknown


def test_an_id_made_to_forge_a_line_is_one_word_of_a_line(quiet_broker: BrokerProcess):
    with RawPeer(quiet_broker.port) as peer:
        find_coordinators(peer)
        assert init(peer, FORGED) == 0
        producer = peer.ask(DescribeTransactionsRequest(transactional_ids=(FORGED,)), 0).transaction_states[0]
        for epoch in (producer.producer_epoch + 3, -1):
            peer.ask(EndTxnRequest(FORGED, producer.producer_id, epoch, True), 5)
        peer.ask(add(FORGED, producer.producer_id, 9, AddPartitionsToTxnTopic(FORGED, (0,))), 3)
    lines = quiet_broker.stopped_log()
    assert [line for line in lines if not LOG_LINE.match(line)] == []
