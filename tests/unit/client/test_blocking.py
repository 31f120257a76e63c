"""The blocking client fetches and appends batches as they are, in the calling thread."""

import asyncio
import signal
import threading
from collections.abc import Iterator

import msgspec
import pytest

from ottla.client import BlockingClient, OffsetAt
from ottla.client.errors import BrokerError, InvalidOptionError, OffsetOutOfRangeError, TopicNotFoundError
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.scripted_broker import CLOSE, SILENCE, ScriptedBroker, in_turn, topic_id

PLACE = TopicPartition("t", 1)
BATCH = bytes(build_batch([(1, b"k", b"v", ())]))


def client(broker: ScriptedBroker, **settings: int) -> BlockingClient:
    return BlockingClient(broker.address, retry_backoff_ms=1, api_timeout_ms=60_000, **settings)


def fetch_answer(*, error: int = 0, records: bytes | None = BATCH, replica: int = -1) -> FetchResponse:
    partition = PartitionData(
        partition_index=1,
        error_code=error,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=2,
        preferred_read_replica=replica,
        records=records,
    )
    return FetchResponse(
        responses=(FetchableTopicResponse(topic="t", topic_id=topic_id("t"), partitions=(partition,)),)
    )


def produce_answer(*, error: int = 0, message: str | None = None) -> ProduceResponse:
    partition = PartitionProduceResponse(index=1, error_code=error, base_offset=41, error_message=message)
    return ProduceResponse(
        responses=(TopicProduceResponse(name="t", topic_id=topic_id("t"), partition_responses=(partition,)),)
    )


@pytest.mark.parametrize("version", [12, 18])
def test_a_fetch_gives_the_batches_as_they_came_by_name_or_by_id(version):
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.versions[FetchRequest.API_KEY] = (4, version)
        broker.handlers[FetchRequest] = lambda request, spoken: fetch_answer()
        answer = blocking.fetch_raw("t", 1, 3, max_bytes=1_000, max_wait_ms=7)
        [request] = broker.asked(FetchRequest)
    assert bytes(answer.records) == BATCH
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (9, 8, 2)
    assert (request.max_wait_ms, request.max_bytes, request.topics[0].partitions[0].fetch_offset) == (7, 1_000, 3)


def test_nothing_to_fetch_is_no_bytes():
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[FetchRequest] = lambda request, version: fetch_answer(records=None)
        assert len(blocking.fetch_raw("t", 1, 9).records) == 0


def test_a_fetch_follows_the_leader_when_it_has_moved():
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[FetchRequest] = in_turn(fetch_answer(error=6), CLOSE, fetch_answer())
        assert bytes(blocking.fetch_raw("t", 1, 0).records) == BATCH
        assert len(broker.asked(FetchRequest)) == 3


def test_a_call_after_one_that_was_interrupted_does_not_get_its_answer():
    def interrupts(request: FetchRequest, version: int) -> object:
        broker.handlers[FetchRequest] = lambda request, version: fetch_answer()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return SILENCE

    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[FetchRequest] = interrupts
        blocking.metadata(["t"])
        connections = broker.connections
        with pytest.raises(KeyboardInterrupt):
            blocking.fetch_raw("t", 1, 0)
        assert bytes(blocking.fetch_raw("t", 1, 0).records) == BATCH
        assert broker.connections > connections


class TestReadReplica:
    """Broker 1 leads and sends readers in rack `b` to broker 2."""

    @pytest.fixture
    def brokers(self) -> Iterator[tuple[ScriptedBroker, ScriptedBroker]]:
        with ScriptedBroker({"t": 2}) as leader, ScriptedBroker({"t": 2}) as near:

            def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
                other = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=near.port, rack="b")
                answer = leader.metadata(request)
                return msgspec.structs.replace(answer, brokers=(*answer.brokers, other))

            def answer(request: FetchRequest, version: int) -> FetchResponse:
                return fetch_answer(records=None, replica=2) if request.rack_id == "b" else fetch_answer()

            leader.handlers = {MetadataRequest: metadata, FetchRequest: answer}
            near.handlers[FetchRequest] = lambda request, version: fetch_answer()
            yield leader, near

    def fetches(self, brokers: tuple[ScriptedBroker, ScriptedBroker]) -> tuple[int, int]:
        return len(brokers[0].asked(FetchRequest)), len(brokers[1].asked(FetchRequest))

    def test_a_reader_is_sent_to_a_replica_in_its_rack_and_stays_there(self, brokers):
        with client(brokers[0]) as blocking:
            for _ in range(3):
                assert bytes(blocking.fetch_raw("t", 1, 0, rack="b").records) == BATCH
        assert self.fetches(brokers) == (1, 3)

    def test_a_replica_in_trouble_leaves_the_reader_with_the_leader(self, brokers):
        brokers[1].handlers[FetchRequest] = in_turn(fetch_answer(error=1), CLOSE, fetch_answer())
        with client(brokers[0]) as blocking:
            for _ in range(3):
                assert bytes(blocking.fetch_raw("t", 1, 0, rack="b").records) == BATCH
        # Twice: sent away by the leader, failed at the replica, read from the leader. Then the replica is well.
        assert self.fetches(brokers) == (5, 3)

    def test_an_offset_that_the_leader_does_not_have_either_is_out_of_range(self, brokers):
        for broker in brokers:
            broker.handlers[FetchRequest] = lambda request, version: fetch_answer(error=1)
        with client(brokers[0]) as blocking, pytest.raises(OffsetOutOfRangeError):
            blocking.fetch_raw("t", 1, 70, rack="b")

    def test_a_reader_that_says_no_rack_reads_from_the_leader(self, brokers):
        with client(brokers[0]) as blocking:
            blocking.fetch_raw("t", 1, 0)
        assert self.fetches(brokers) == (1, 0)


def test_an_offset_out_of_range_is_an_error_of_its_own():
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[FetchRequest] = lambda request, version: fetch_answer(error=1)
        with pytest.raises(OffsetOutOfRangeError, match="offset 70 of t-1 is out of range"):
            blocking.fetch_raw("t", 1, 70)


def test_an_append_tells_where_the_records_are():
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[ProduceRequest] = lambda request, version: produce_answer()
        assert blocking.produce_raw("t", 1, BATCH).base_offset == 41
        [request] = broker.asked(ProduceRequest)
    [data] = request.topic_data[0].partition_data
    assert (request.acks, data.index, bytes(data.records)) == (-1, 1, BATCH)


def test_an_append_whose_answer_was_lost_is_sent_again():
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[ProduceRequest] = in_turn(CLOSE, produce_answer(error=19), produce_answer())
        assert blocking.produce_raw("t", 1, BATCH).base_offset == 41


@pytest.mark.parametrize("code", [2, 10, 87])
def test_an_append_that_was_refused_for_good_is_sent_once_and_says_why(code):
    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[ProduceRequest] = lambda request, version: produce_answer(error=code, message="the reason")
        with pytest.raises(BrokerError, match="t-1 refused records: the reason"):
            blocking.produce_raw("t", 1, BATCH)
        assert len(broker.asked(ProduceRequest)) == 1


def test_offsets_that_a_leader_could_not_give_are_asked_for_again_alone():
    def answer(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        first = len(broker.asked(ListOffsetsRequest)) == 1
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=6 if first and each.partition_index else 0,
                            offset=100 + each.partition_index,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    with ScriptedBroker({"t": 2}) as broker, client(broker) as blocking:
        broker.handlers[ListOffsetsRequest] = answer
        found = blocking.list_offsets({TopicPartition("t", 0): 5, PLACE: OffsetAt.LATEST})
        again = broker.asked(ListOffsetsRequest)[1]
    assert {place.partition: listed.offset for place, listed in found.items()} == {0: 100, 1: 101}
    assert [each.partition_index for each in again.topics[0].partitions] == [1]


def test_topics_are_described_and_missing_ones_are_an_error():
    with ScriptedBroker({"a": 1, "b": 3}) as broker, client(broker) as blocking:
        assert {name: len(topic.partitions) for name, topic in blocking.metadata(["a", "b"]).items()} == {
            "a": 1,
            "b": 3,
        }
        assert set(blocking.topics()) == {"a", "b"}
        with pytest.raises(TopicNotFoundError):
            blocking.metadata(["c"])


async def test_it_can_be_used_inside_of_a_running_event_loop():
    with ScriptedBroker({"t": 1}) as broker, client(broker) as blocking:
        await asyncio.sleep(0)
        assert set(blocking.topics()) == {"t"}


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(InvalidOptionError, match="unknown client option 'request_timeout'"):
        BlockingClient("localhost", request_timeout=5)


def test_nothing_is_sent_before_the_first_call():
    BlockingClient("no-such-host.invalid:1").close()
