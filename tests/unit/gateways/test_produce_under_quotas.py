"""Produce requests while some clients have a quota: these are counted and throttled, and nobody else notices it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.produce import ProduceService
from ottla.broker.quota_manager import ClientQuotaManager
from ottla.broker.request_quotas import RequestQuotas
from ottla.gateways.kafka.request_batcher import RequestBatcher
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.model.quota_entity import CLIENT_ID, USER, QuotaEntity
from ottla.native import build_batch
from ottla.network.config import NetworkConfig
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.wire_protocol import WireProtocol
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import client_id_of, decode_response, encode_request, raw_client_id
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.replication.acknowledgement import AppendAck
from ottla.runtime.clock import ManualClock
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.sampled_rate import Windows
from tests.unit.gateways.log_gateway import LogGateway
from tests.unit.gateways.test_api_00_produce import TOPIC, ServedGateway
from tests.unit.gateways.test_produce_together import Turn

pytestmark = pytest.mark.slow

GREEDY, CALM = "greedy", "calm"
BYTES = "producer_byte_rate"


def frame(client_id: str | None, *, acks: int = -1, topic: str = TOPIC) -> bytes:
    """A request of one record, its length included."""
    batch = bytes(build_batch([(0, None, b"x" * 100, ())]))
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),)),)
    return encode_request(1, client_id, ProduceRequest(acks=acks, timeout_ms=5, topic_data=data), 9)


def quotas_of(*entities: QuotaEntity, bound: float = 1.0) -> RequestQuotas:
    """A bound of that many bytes a second for each."""
    manager = ClientQuotaManager(ManualClock(1_000_000), Windows(), Windows(), 10)
    manager.configure({entity: {BYTES: bound} for entity in entities})
    return RequestQuotas(manager, lambda: 0)


def throttle_of(answer: bytes) -> int:
    response: Any = decode_response(ApiKey.PRODUCE, 9, answer)[1]
    return int(response.throttle_time_ms)


def turn_of(client_ids: list[str | None], *entities: QuotaEntity) -> tuple[Turn, dict[int, list[int]]]:
    """Requests of clients, one each, and for how long each of them was muted."""
    turn = Turn([frame(each)[4:] for each in client_ids])
    turn.gateway.connection.gateway.quotas = quotas_of(*entities)
    muted: dict[int, list[int]] = {}
    for index, client in enumerate(turn.clients):
        client.mute = muted.setdefault(index, []).append  # type: ignore[attr-defined]
    return turn, muted


@pytest.mark.parametrize("at_once", [False, True])
def test_a_quota_of_somebody_else_changes_nothing(at_once: bool) -> None:
    turn, muted = turn_of([CALM, None, "other", CALM], ((CLIENT_ID, GREEDY),), ((USER, "alice"),))
    assert turn.take(at_once=at_once) == []
    assert turn.role.runs == [4]
    counts = (turn.at_once if at_once else turn.together).counts
    assert (counts.runs, counts.requests) == (1, 4)
    assert (counts.runs_at_once, counts.requests_at_once) == ((1, 4) if at_once else (0, 0))
    assert not any(muted.values())


def test_of_one_connection_a_quota_of_somebody_else_changes_nothing() -> None:
    for way in ("take_at_once", "take_leading", "take_whole"):
        turn, muted = turn_of([CALM] * 3, ((CLIENT_ID, GREEDY),))
        assert getattr(turn, way)() > 0, way
        assert (turn.role.runs, muted[0]) == ([3], [])


def test_a_client_that_has_a_quota_is_in_runs_of_its_own_counted_once_and_throttled() -> None:
    turn, muted = turn_of([GREEDY, CALM, GREEDY, CALM, GREEDY], ((CLIENT_ID, GREEDY),))
    assert turn.take(at_once=True) == []
    assert sorted(turn.role.runs) == [2, 3]
    counts = turn.at_once.counts
    assert (counts.requests_at_once, counts.requests) == (2, 5), "the others keep the fast way"
    size = 3 * len(frame(GREEDY))
    expected = quotas_of(((CLIENT_ID, GREEDY),)).manager.produced(Principal("User", "ANONYMOUS"), GREEDY, size)
    assert expected > 0
    assert [muted[index] for index in range(5)] == [[expected], [], [expected], [], [expected]]
    [(on_ack, on_buffer_free)] = turn.role.told
    on_buffer_free()
    on_ack(_written())
    answers = [b"".join(client.frames)[4:] for client in turn.clients]
    assert [throttle_of(answer) for answer in answers] == [expected, 0, expected, 0, expected]
    assert [_base_offset(answers[index]) for index in (0, 2, 4)] == [7, 8, 9]
    assert turn.buffer.held == 0


def _written() -> Any:
    return AppendAck(ErrorCode.NONE, base_offset=7)


def _base_offset(answer: bytes) -> int:
    response: Any = decode_response(ApiKey.PRODUCE, 9, answer)[1]
    return int(response.responses[0].partition_responses[0].base_offset)


def test_what_one_connection_sends_for_several_clients_is_counted_for_each() -> None:
    turn, _ = turn_of([CALM, GREEDY, CALM], ((CLIENT_ID, GREEDY),))
    assert (turn.take_at_once(), turn.take_leading(), turn.take_whole(), turn.role.runs) == (0, 0, 0, [])


def test_the_quota_of_a_user_applies_to_its_runs() -> None:
    turn, muted = turn_of([CALM] * 4, ((USER, "alice"),))
    for index in (1, 3):
        turn.clients[index].handler.principal = Principal("User", "alice")
    assert turn.take(at_once=True) == []
    assert (sorted(turn.role.runs), turn.at_once.counts.requests_at_once) == ([2, 2], 2)
    assert [bool(muted[index]) for index in range(4)] == [False, True, False, True]


def test_a_single_request_is_counted_only_where_its_client_has_a_quota() -> None:
    gateway = ServedGateway(Turn([]).gateway.connection.gateway.apis[0], _written())
    quotas = gateway.connection.gateway.quotas = quotas_of(((CLIENT_ID, GREEDY),))
    muted: list[int] = []
    gateway.connection.connection.mute = muted.append  # type: ignore[assignment, method-assign]
    for client_id in (CALM, GREEDY):
        slot = gateway.send(frame(client_id)[4:])
        assert slot.frame is not None
        assert (throttle_of(slot.frame[4:]) > 0, len(muted)) == ((client_id == GREEDY),) * 2
    assert not quotas.binds(Principal("User", "x"), None)


def test_a_client_id_is_found_where_it_lies() -> None:
    for client_id, found in ((CALM, CALM), ("", ""), (None, ""), ("a\N{GREEK SMALL LETTER BETA}", "aβ")):
        data = memoryview(b"12345" + frame(client_id))
        assert client_id_of(raw_client_id(data, 5)) == found
        for cut in range(5, 25):  # no request: anything, but no error
            client_id_of(raw_client_id(data[:cut], 5))


@pytest.mark.parametrize("flushes", [True, False], ids=["on disk", "written"])
async def test_through_sockets_one_client_is_throttled_and_the_others_are_not(tmp_path: Path, flushes: bool) -> None:
    gateway = await LogGateway(tmp_path).open()
    partition = await gateway.partition()
    partition.flush_before_ack = flushes
    gateway.produce = ProduceService(gateway.replicas, Deadlines(gateway.clock, gateway.timer))  # type: ignore[attr-defined]
    gateway.gateway.quotas = quotas_of(((CLIENT_ID, GREEDY),))
    together = RequestBatcher(gateway.gateway, 1 << 20, writes_here=None if flushes else lambda: True)
    options: dict[str, Any] = {"config": NetworkConfig(), "clock": gateway.clock, "timer": gateway.timer}
    protocol = WireProtocol("Kafka", gateway.gateway.connect, LengthPrefixReader, together)
    listener = Listener("127.0.0.1", 0, protocol, **options)
    await listener.start()
    streams = [await asyncio.open_connection(*listener.address) for _ in range(10)]
    names = [GREEDY if index == 3 else CALM for index in range(10)]
    for _ in range(3):  # the greedy one is muted from its first request on, and its answer leaves all the same
        for (_, writer), name in zip(streams, names, strict=True):
            writer.write(frame(name))
        for (reader, _), name in zip(streams, names, strict=True):
            if name == CALM:
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                assert throttle_of(answer) == 0
    reader, _ = streams[3]
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    assert throttle_of(answer) > 0
    assert partition.log.log_end_offset == 3 * 9 + 1, "what it sent behind that is not read yet"
    assert together.counts.requests + len(streams) > 3 * 9
    assert (together.counts.requests_at_once > 0) is not flushes
    for _, writer in streams:
        writer.close()
    await listener.close()
    await gateway.close()
