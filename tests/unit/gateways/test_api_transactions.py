"""The APIs of transactions in every version, but for those of the log."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import Operation, ResourceType
from ottla.broker.coordinators import CoordinatorLookup
from ottla.gateways.kafka.api_09_offset_fetch import API as OFFSET_FETCH
from ottla.gateways.kafka.api_10_find_coordinator import API as FIND_COORDINATOR
from ottla.gateways.kafka.api_22_init_producer_id import API as INIT_PRODUCER_ID
from ottla.gateways.kafka.api_24_add_partitions_to_txn import API as ADD_PARTITIONS_TO_TXN
from ottla.gateways.kafka.api_25_add_offsets_to_txn import API as ADD_OFFSETS_TO_TXN
from ottla.gateways.kafka.api_26_end_txn import API as END_TXN
from ottla.gateways.kafka.api_28_txn_offset_commit import API as TXN_OFFSET_COMMIT
from ottla.gateways.kafka.api_42_delete_groups import API as DELETE_GROUPS
from ottla.gateways.kafka.api_65_describe_transactions import API as DESCRIBE_TRANSACTIONS
from ottla.gateways.kafka.api_66_list_transactions import API as LIST_TRANSACTIONS
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, Principal, broker_principal
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.model.transaction_marker import TransactionMarker
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.runtime.turns import ITEMS_PER_TURN
from ottla.transactions.transaction_config import PARTITIONS_PER_TRANSACTION_MAX
from tests.unit.broker.rules import Rules
from tests.unit.gateways.transaction_gateway import TransactionGateway
from tests.unit.gateways.turns_of_the_loop import TurnsOfTheLoop

INVALID_EPOCH, FENCED = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[TransactionGateway]:
    gateway = await TransactionGateway(tmp_path).open()
    await gateway.elect()
    yield gateway
    await gateway.close()


async def init(gateway: TransactionGateway, transactional_id: str = "t", **more: Any) -> ProducerIdentity:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **more)
    answer = await gateway.ask(INIT_PRODUCER_ID, request)
    assert answer.error_code == ErrorCode.NONE
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


async def add(
    gateway: TransactionGateway, producer: ProducerIdentity, version: int = 3, **topics: tuple[int, ...]
) -> list[int]:
    """The error of each partition."""
    wanted = tuple(AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items())
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=wanted,
    )
    answer = await gateway.ask(ADD_PARTITIONS_TO_TXN, request, version)
    assert [each.name for each in answer.results_by_topic_v3_and_below] == list(topics)
    return [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]


async def end(gateway: TransactionGateway, producer: ProducerIdentity, *, commit: bool, version: int = 4) -> Any:
    request = EndTxnRequest(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    return await gateway.ask(END_TXN, request, version)


async def commit_offset(
    gateway: TransactionGateway, producer: ProducerIdentity, offset: int, version: int = 5, **more: Any
) -> int:
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=(
            TxnOffsetCommitRequestTopic(
                name="flights",
                partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset),),
            ),
        ),
        **more,
    )
    answer = await gateway.ask(TXN_OFFSET_COMMIT, request, version)
    return int(answer.topics[0].partitions[0].error_code)


async def committed(gateway: TransactionGateway, *, require_stable: bool) -> tuple[int, int]:
    """Offset and error of the first partition."""
    topics = (OffsetFetchRequestTopics(name="flights", partition_indexes=(0,)),)
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),), require_stable=require_stable
    )
    answer = await gateway.ask(OFFSET_FETCH, request, 9)
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_of_a_transactional_id_is_found(gateway: TransactionGateway, version: int):
    request = FindCoordinatorRequest(key="t")
    if version >= 4:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=("t",))
    elif version >= 1:
        request = FindCoordinatorRequest(key_type=1, key="t")
    answer = await gateway.ask(FIND_COORDINATOR, request, version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", range(INIT_PRODUCER_ID.min_version, INIT_PRODUCER_ID.max_version + 1))
async def test_each_producer_of_an_id_gets_the_next_epoch(gateway: TransactionGateway, version: int):
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
    answers = [await gateway.ask(INIT_PRODUCER_ID, request, version) for _ in range(3)]
    assert [each.producer_epoch for each in answers] == [0, 1, 2]
    assert len({each.producer_id for each in answers}) == 1


@pytest.mark.parametrize(("version", "error"), [(3, INVALID_EPOCH), (4, FENCED), (5, FENCED)])
async def test_a_producer_that_another_followed_is_told_so(gateway: TransactionGateway, version: int, error: ErrorCode):
    first = await init(gateway)
    await init(gateway)
    request = InitProducerIdRequest(
        transactional_id="t",
        transaction_timeout_ms=1_000,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
    )
    answer = await gateway.ask(INIT_PRODUCER_ID, request, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


async def test_an_offset_that_comes_in_the_turn_of_the_marker_is_refused_by_itself(gateway: TransactionGateway):
    producer = await init(gateway)
    assert await commit_offset(gateway, producer, 5) == ErrorCode.NONE
    marker = TransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch + 1,
        committed=True,
        coordinator_epoch=0,
        transaction_version=2,
    )
    written: list[ErrorCode] = []
    gateway.coordinator.end_transaction(0, marker, written.append)
    assert await commit_offset(gateway, producer, 8) == ErrorCode.INVALID_TXN_STATE
    assert await committed(gateway, require_stable=True) == (5, 0)
    assert written == [ErrorCode.NONE]


async def test_a_marker_that_comes_in_the_turn_of_another_of_the_producer_is_to_come_again(gateway: TransactionGateway):
    written: list[ErrorCode] = []
    for epoch in (5, 3):
        marker = TransactionMarker(
            producer_id=7, producer_epoch=epoch, committed=True, coordinator_epoch=0, transaction_version=2
        )
        gateway.coordinator.end_transaction(0, marker, written.append)
    assert await committed(gateway, require_stable=True) == (-1, 0)
    assert sorted(written) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_in_every_version_of_clients(gateway: TransactionGateway, version: int):
    producer = await init(gateway)
    assert await add(gateway, producer, version, flights=(0, 1)) == [0, 0]
    stranger = ProducerIdentity(producer.producer_id, 7)
    fenced = INVALID_EPOCH if version < 2 else FENCED
    assert await add(gateway, stranger, version, flights=(0,)) == [fenced]


@pytest.mark.parametrize("topic", [TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC])
async def test_a_client_has_no_topic_of_coordinators_take_part(gateway: TransactionGateway, topic: str):
    producer = await init(gateway)
    assert await add(gateway, producer, 3, **{topic: (0,)}) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_where_one_partition_is_not_there_none_is_added(gateway: TransactionGateway):
    producer = await init(gateway)
    unknown, untried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await add(gateway, producer, flights=(0, 5), trips=(0,)) == [untried, unknown, unknown]
    assert await end_error(gateway, producer) == ErrorCode.INVALID_TXN_STATE


async def test_more_partitions_than_a_transaction_may_have_are_refused_in_turns(gateway: TransactionGateway):
    producer = await init(gateway)
    async with TurnsOfTheLoop() as turns:
        errors = await add(gateway, producer, flights=tuple(range(PARTITIONS_PER_TRANSACTION_MAX + 1)))
    assert set(errors) == {ErrorCode.TRANSACTION_ABORTABLE}
    assert len(errors) == PARTITIONS_PER_TRANSACTION_MAX + 1
    assert turns.count > PARTITIONS_PER_TRANSACTION_MAX // ITEMS_PER_TURN


async def end_error(gateway: TransactionGateway, producer: ProducerIdentity) -> int:
    return int((await end(gateway, producer, commit=True)).error_code)


def asked(
    name: str, producer: ProducerIdentity, *numbers: int, topic: str = "flights", verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=(AddPartitionsToTxnTopic(name=topic, partitions=numbers),),
    )


async def add_to_many(
    gateway: TransactionGateway, version: int, *transactions: AddPartitionsToTxnTransaction
) -> dict[str, set[int]]:
    """The errors of each transaction."""
    answer = await gateway.ask(ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(transactions=transactions), version)
    assert answer.error_code == ErrorCode.NONE
    return {
        each.transactional_id: {
            partition.partition_error_code for topic in each.topic_results for partition in topic.results_by_partition
        }
        for each in answer.results_by_transaction
    }


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("principal", [ANONYMOUS, broker_principal(2)], ids=str)
async def test_clients_and_brokers_add_and_verify_for_many_transactions(
    gateway: TransactionGateway, principal: Principal, version: int
):
    one, other = await init(gateway, "t"), await init(gateway, "u")
    gateway.principal = principal
    assert await add_to_many(gateway, version, asked("t", one, 0), asked("u", other, 0, verify_only=True)) == {
        "t": {ErrorCode.NONE},
        "u": {ErrorCode.TRANSACTION_ABORTABLE},
    }
    assert await add_to_many(gateway, version, asked("t", one, 0, verify_only=True)) == {"t": {ErrorCode.NONE}}
    assert await add_to_many(gateway, version) == {}


async def test_a_client_has_the_rights_of_a_client_whatever_version_it_asks_in(gateway: TransactionGateway):
    one = await init(gateway)
    stranger = ProducerIdentity(one.producer_id, one.producer_epoch + 1)
    offsets = asked("t", one, 0, topic="__consumer_offsets")
    assert await add_to_many(gateway, 5, offsets, asked("u", one, 0)) == {
        "t": {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        "u": {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }
    assert await add_to_many(gateway, 5, asked("t", stranger, 0)) == {"t": {ErrorCode.PRODUCER_FENCED}}
    gateway.principal = broker_principal(2)
    assert await add_to_many(gateway, 5, offsets) == {"t": {ErrorCode.NONE}}


async def test_more_partitions_or_transactions_than_a_client_has_are_refused_in_turns(gateway: TransactionGateway):
    one = await init(gateway)
    async with TurnsOfTheLoop() as turns:
        errors = await add_to_many(gateway, 5, asked("t", one, *range(PARTITIONS_PER_TRANSACTION_MAX + 1)))
    assert errors == {"t": {ErrorCode.TRANSACTION_ABORTABLE}}
    assert turns.count > PARTITIONS_PER_TRANSACTION_MAX // ITEMS_PER_TURN
    names = ["t", *(f"u-{index}" for index in range(10 * ITEMS_PER_TURN))]
    async with TurnsOfTheLoop() as turns:
        errors = await add_to_many(gateway, 5, *(asked(name, one, 0) for name in names))
    assert errors == {name: {ErrorCode.TRANSACTION_ABORTABLE} for name in names}
    assert turns.count > 10
    assert await add_to_many(gateway, 5, asked("t", one, 0, verify_only=True)) == {
        "t": {ErrorCode.TRANSACTION_ABORTABLE}
    }
    assert await add_to_many(gateway, 5, asked("t", one, 0)) == {"t": {ErrorCode.NONE}}


@pytest.mark.parametrize("version", range(END_TXN.min_version, END_TXN.max_version + 1))
async def test_a_transaction_ends_in_every_version(gateway: TransactionGateway, version: int):
    producer = await init(gateway)
    await add(gateway, producer, flights=(0,))
    answer = await end(gateway, producer, commit=True, version=version)
    assert answer.error_code == ErrorCode.NONE
    expected = (producer.producer_id, 1) if version >= 5 else (-1, -1)
    assert (answer.producer_id, answer.producer_epoch) == expected
    repeated = await end(gateway, producer, commit=True, version=version)
    assert (repeated.error_code, repeated.producer_id, repeated.producer_epoch) == (ErrorCode.NONE, *expected)
    fenced = INVALID_EPOCH if version < 2 else FENCED
    late = ProducerIdentity(producer.producer_id, 9)
    assert (await end(gateway, late, commit=True, version=version)).error_code == fenced
    assert gateway.flights[0].log.log_end_offset == 1


@pytest.mark.parametrize("version", range(ADD_OFFSETS_TO_TXN.min_version, ADD_OFFSETS_TO_TXN.max_version + 1))
async def test_the_offsets_of_a_group_are_added(gateway: TransactionGateway, version: int):
    producer = await init(gateway)

    async def ask(epoch: int) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id="t", producer_id=producer.producer_id, producer_epoch=epoch, group_id="g"
        )
        return int((await gateway.ask(ADD_OFFSETS_TO_TXN, request, version)).error_code)

    assert await ask(0) == ErrorCode.NONE
    assert await ask(5) == (INVALID_EPOCH if version < 2 else FENCED)
    described = await gateway.ask(DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=("t",)))
    [topic] = described.transaction_states[0].topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", (0,))


async def test_offsets_whose_topic_cannot_be_made_yet_are_to_be_added_later(
    gateway: TransactionGateway, monkeypatch: pytest.MonkeyPatch
):
    async def not_there(lookup: CoordinatorLookup) -> TopicImage:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker is there to keep it")

    producer = await init(gateway)
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=producer.producer_id, producer_epoch=0, group_id="g"
    )
    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorLookup, "groups_topic", not_there)
        assert (await gateway.ask(ADD_OFFSETS_TO_TXN, request)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await gateway.ask(ADD_OFFSETS_TO_TXN, request)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(TXN_OFFSET_COMMIT.min_version, TXN_OFFSET_COMMIT.max_version + 1))
async def test_offsets_of_a_transaction_are_seen_when_it_is_committed(gateway: TransactionGateway, version: int):
    producer = await init(gateway)
    if version < 5:
        not_added = ErrorCode.TRANSACTION_ABORTABLE if version == 4 else ErrorCode.INVALID_TXN_STATE
        assert await commit_offset(gateway, producer, 1, version) == not_added
        request = AddOffsetsToTxnRequest(
            transactional_id="t", producer_id=producer.producer_id, producer_epoch=0, group_id="g"
        )
        await gateway.ask(ADD_OFFSETS_TO_TXN, request)
    assert await commit_offset(gateway, producer, 7, version) == ErrorCode.NONE
    assert await committed(gateway, require_stable=False) == (-1, ErrorCode.NONE)
    assert await committed(gateway, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end_version = 5 if version == 5 else 4
    assert (await end(gateway, producer, commit=True, version=end_version)).error_code == ErrorCode.NONE
    assert await committed(gateway, require_stable=True) == (7, ErrorCode.NONE)


async def test_offsets_of_an_aborted_transaction_come_to_nothing(gateway: TransactionGateway):
    producer = await init(gateway)
    assert await commit_offset(gateway, producer, 7) == ErrorCode.NONE
    await end(gateway, producer, commit=False, version=5)
    assert await committed(gateway, require_stable=True) == (-1, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id="t"), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest(transactional_id="t", producer_id=5), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_is_refused(gateway: TransactionGateway, request_: InitProducerIdRequest, code: ErrorCode):
    answer = await gateway.ask(INIT_PRODUCER_ID, request_)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_offsets_are_the_members_or_of_no_member_to_commit(gateway: TransactionGateway):
    producer = await init(gateway)
    member: dict[str, Any] = {"generation_id": 3, "member_id": "gone"}
    assert await commit_offset(gateway, producer, 7, **member) == ErrorCode.ILLEGAL_GENERATION
    assert await commit_offset(gateway, producer, 7) == ErrorCode.NONE
    assert await commit_offset(gateway, producer, 7, **member) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_producer_that_was_fenced_off_commits_no_offsets(gateway: TransactionGateway):
    producer = await init(gateway)
    await init(gateway)
    assert await commit_offset(gateway, producer, 7) == INVALID_EPOCH


async def test_a_group_that_is_deleted_takes_its_pending_offsets_along(gateway: TransactionGateway):
    producer = await init(gateway)
    await commit_offset(gateway, producer, 7)
    answer = await gateway.ask(DELETE_GROUPS, DeleteGroupsRequest(groups_names=("g",)))
    assert answer.results[0].error_code == ErrorCode.NONE
    assert (await end(gateway, producer, commit=True, version=5)).error_code == ErrorCode.NONE
    assert await committed(gateway, require_stable=True) == (-1, ErrorCode.NONE)


async def test_old_clients_hear_of_unstable_offsets_too(gateway: TransactionGateway):
    producer = await init(gateway)
    await commit_offset(gateway, producer, 7)
    topics = (OffsetFetchRequestTopic(name="flights", partition_indexes=(0,)),)
    request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=True)
    answer = await gateway.ask(OFFSET_FETCH, request, 7)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


async def test_transactions_are_described_and_listed(gateway: TransactionGateway):
    producer = await init(gateway)
    await init(gateway, "u")
    await add(gateway, producer, flights=(1, 0))
    asked = DescribeTransactionsRequest(transactional_ids=("t", "x", "t", ""))
    answer = await gateway.ask(DESCRIBE_TRANSACTIONS, asked)
    assert [(each.transactional_id, each.error_code) for each in answer.transaction_states] == [
        ("t", ErrorCode.NONE),
        ("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]
    found = answer.transaction_states[0]
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", *producer)
    assert [(each.topic, each.partitions) for each in found.topics] == [("flights", (0, 1))]
    listed = await gateway.ask(LIST_TRANSACTIONS, ListTransactionsRequest(state_filters=("Ongoing", "Nonsense")))
    assert [(each.transactional_id, each.transaction_state) for each in listed.transaction_states] == [("t", "Ongoing")]
    assert listed.unknown_state_filters == ("Nonsense",)
    for pattern, expected in (("[a-t]+", {"t"}), ("", {"t", "u"}), ("x", set())):
        listed = await gateway.ask(LIST_TRANSACTIONS, ListTransactionsRequest(transactional_id_pattern=pattern))
        assert {each.transactional_id for each in listed.transaction_states} == expected
    broken = await gateway.ask(LIST_TRANSACTIONS, ListTransactionsRequest(transactional_id_pattern="[a"))
    assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    everything = await gateway.ask(LIST_TRANSACTIONS, ListTransactionsRequest(), 0)
    assert {each.transactional_id for each in everything.transaction_states} == {"t", "u"}


async def test_who_may_not_is_told_so(tmp_path: Path):
    rules = Rules()
    gateway = await TransactionGateway(tmp_path, rules).open()
    await gateway.elect()
    producer = await init(gateway)
    await init(gateway, "u")
    rules.deny(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")
    rules.deny(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "t")
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
    assert (await gateway.ask(INIT_PRODUCER_ID, request)).error_code == refused
    assert await add(gateway, producer, flights=(0,)) == [refused]
    assert (await end(gateway, producer, commit=True)).error_code == refused
    assert await commit_offset(gateway, producer, 1) == refused
    described = await gateway.ask(DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=("t",)))
    assert described.transaction_states[0].error_code == refused
    listed = await gateway.ask(LIST_TRANSACTIONS, ListTransactionsRequest())
    assert [each.transactional_id for each in listed.transaction_states] == ["u"]
    await gateway.close()
