"""A producer of encoded batches delivers each once and in order, several requests ahead of the answers."""

import random

import pytest

from ottla.client.blocking import BlockingClient
from ottla.client.errors import BrokerError, ClientError
from ottla.client.producing.blocking_producer import IN_FLIGHT_BYTES_MAX, REQUEST_BYTES, BlockingProducer
from ottla.client.producing.producer_batch import Identity
from ottla.client.producing.producer_options import IN_FLIGHT_MAX_IDEMPOTENT
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, validate_batches
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import ProduceRequest
from tests.unit.client.producing.test_producer import FAULTS, AppendingBroker
from tests.unit.client.scripted_broker import SILENCE

pytestmark = pytest.mark.slow

LARGE = b"x" * (REQUEST_BYTES // 3)


def client(broker: AppendingBroker, **settings: int) -> BlockingClient:
    return BlockingClient(broker.address, **{"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, **settings})


def batch(*values: bytes) -> bytearray:
    return build_batch([(0, None, value, ()) for value in values])


def send(producer: BlockingProducer, partition: int, *values: bytes) -> None:
    producer.send(TopicPartition("t", partition), batch(*values))


def send_many(producer: BlockingProducer) -> None:
    for _ in range(2 * IN_FLIGHT_MAX_IDEMPOTENT):
        send(producer, 0, LARGE)
    for number in range(IN_FLIGHT_BYTES_MAX // len(LARGE)):
        send(producer, 1 + number % 19, LARGE)
    producer.flush()


@pytest.mark.parametrize("faults", FAULTS)
def test_batches_arrive_once_and_in_order_whatever_is_lost(faults):
    with AppendingBroker({"t": 3}) as broker, client(broker) as blocking:
        broker.faults = list(faults)
        producer = blocking.producer()
        expected: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        drawing = random.Random(7)
        for number in range(40):
            partition = drawing.randrange(3)
            values = [b"%d" % number, LARGE]
            send(producer, partition, *values)
            expected[partition] += values
        producer.flush()
        assert {each: broker.logs[each].values for each in expected} == expected
        assert not broker.faults


def test_partitions_share_requests():
    with AppendingBroker({"t": 8}) as broker, client(broker) as blocking:
        producer = blocking.producer()
        for partition in range(8):
            send(producer, partition, b"small")
        producer.flush()
        [request] = broker.asked(ProduceRequest)
        assert len(request.topic_data[0].partition_data) == 8


def test_batches_run_ahead_of_answers_as_far_as_a_leader_remembers_them_and_memory_allows():
    with AppendingBroker({"t": 20}) as broker, client(broker, request_timeout_ms=5_000, api_timeout_ms=1) as blocking:
        broker.handlers[ProduceRequest] = lambda *_: SILENCE
        producer = blocking.producer()
        with pytest.raises(ClientError, match="did not answer Produce"):
            send_many(producer)
        sent = [each for request in broker.asked(ProduceRequest) for each in request.topic_data[0].partition_data]
        assert [each.index for each in sent].count(0) == IN_FLIGHT_MAX_IDEMPOTENT
        sent_bytes = sum(len(each.records or b"") for each in sent)
        assert IN_FLIGHT_BYTES_MAX <= sent_bytes < IN_FLIGHT_BYTES_MAX + REQUEST_BYTES


def test_answers_that_are_there_make_room_without_waiting_for_them():
    with AppendingBroker({"t": 1}) as broker, client(broker) as blocking:
        producer = blocking.producer()
        for number in range(4 * IN_FLIGHT_MAX_IDEMPOTENT):
            send(producer, 0, b"%d" % number, LARGE)
            send(producer, 0, LARGE, LARGE)
        producer.flush()
        assert [each for each in broker.logs[0].values if each != LARGE] == [b"%d" % each for each in range(20)]
        assert producer.last_sequences == {TopicPartition("t", 0): 79}


def test_a_broker_that_forgot_the_producer_gets_the_rest_by_a_new_epoch(caplog):
    with AppendingBroker({"t": 1}) as broker, client(broker) as blocking:
        producer = blocking.producer()
        send(producer, 0, b"before")
        producer.flush()
        broker.logs[0].producers = {1_001: [(0, 40, 50, 0)]}
        send(producer, 0, b"after")
        producer.flush()
        assert broker.logs[0].values == [b"before", b"after"]
        assert "requesting a new producer epoch: t-0 refused records: OUT_OF_ORDER_SEQUENCE_NUMBER" in caplog.text


def test_what_is_refused_for_good_ends_the_producer():
    with AppendingBroker({"t": 1}) as broker, client(broker) as blocking:
        broker.faults = [int(ErrorCode.MESSAGE_TOO_LARGE)]
        producer = blocking.producer()
        send(producer, 0, b"a")
        for _ in range(2):
            with pytest.raises(BrokerError, match="t-0 refused records: MESSAGE_TOO_LARGE"):
                producer.flush()
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            send(producer, 0, b"b")
        assert not broker.logs[0].values


def test_a_member_of_a_transaction_asks_for_no_id_and_takes_no_other_epoch():
    with AppendingBroker({"t": 1}) as broker, client(broker) as blocking:
        producer = blocking.producer(transactional_id="x", identity=Identity(5, 3, is_transactional=True))
        send(producer, 0, b"a", b"b")
        producer.flush()
        request = broker.asked(ProduceRequest)[0]
        [info] = validate_batches(request.topic_data[0].partition_data[0].records)
        assert request.transactional_id == "x"
        assert (info.producer_id, info.producer_epoch, info.base_sequence, info.is_transactional) == (5, 3, 0, True)
        assert producer.last_sequences == {TopicPartition("t", 0): 1}
        broker.faults = [int(ErrorCode.INVALID_PRODUCER_EPOCH)]
        send(producer, 0, b"c")
        with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
            producer.flush()
        assert broker.asked(InitProducerIdRequest) == []


def test_a_producer_that_was_abandoned_sends_nothing_more():
    with AppendingBroker({"t": 1}) as broker, client(broker) as blocking:
        producer = blocking.producer()
        send(producer, 0, b"a")
        producer.abandon()
        with pytest.raises(ClientError, match="abandoned"):
            producer.flush()
        assert broker.asked(ProduceRequest) == []
