"""Requests that are served as one: written the same and answered with the same bytes as one by one."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ottla.broker.produce import DISK_MS, ProduceService
from ottla.gateways.kafka.request_batcher import RequestBatcher
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.native import ProduceRun, TopicRules, build_batch, decode_records
from ottla.network.config import NetworkConfig
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.response_queue import ResponseQueue, ResponseSlot
from ottla.network.wire_protocol import WireProtocol
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_response
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.runtime.deadlines import Deadlines
from ottla.storage.log_append_info import LogAppendInfo
from tests.unit.gateways.log_gateway import LogGateway
from tests.unit.gateways.test_api_00_produce import (
    GENERAL,
    RULES,
    VERSIONS,
    WHOLE,
    Role,
    ServedGateway,
    frame_of,
    refused,
    written,
)

RULES_OF_TOPIC = TopicRules(max_batch_bytes=1 << 20, max_decompressed_bytes=1 << 20)


class RunRole(Role):
    """Takes runs as well."""

    takes = True

    def append_run(self, run: ProduceRun, *, on_ack: OnAck, on_buffer_free: Callable[[], None]) -> bool:
        run.check(RULES_OF_TOPIC, 0)
        if not self.takes or not len(run):
            return False
        self.runs.append(len(run))
        self.told.append((on_ack, on_buffer_free))
        return True

    def write_run(self, run: ProduceRun) -> LogAppendInfo | None:
        count = len(run)
        run.check(RULES_OF_TOPIC, 0)
        if not self.takes or len(run) != count:
            return None
        self.runs.append(count)
        return self.info

    def __init__(self, ack: AppendAck | None) -> None:
        super().__init__(ack)
        self.info = LogAppendInfo(0, 0, -1, 0, 0)
        self.runs: list[int] = []
        self.told: list[tuple[OnAck, Callable[[], None]]] = []


class Client:
    """A connection without a socket: its answers."""

    def __init__(self, gateway: ServedGateway) -> None:
        self.frames: list[bytes] = []
        self.lost: list[int] = []
        self.held_bytes = 0
        self.closed: list[str] = []
        self.responses = ResponseQueue(self)
        self.handler: Any = gateway.connection.gateway.connect(self)  # type: ignore[arg-type]
        self.is_muted = False
        self.peer = "a test"

    def on_response(self, parts: Sequence[Any]) -> None:
        self.frames.append(b"".join(parts))

    def on_answer(self, answer: bytes) -> None:
        self.frames.append(answer)

    def on_held(self, by: int, /) -> None:
        self.held_bytes += by

    def on_abandoned(self, number: int) -> None:
        self.lost.append(number)

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    def fail(self, reason: str, slot: object) -> None:
        del slot
        self.closed.append(reason)

    def complain(self, what: str) -> None:
        del what


class Buffer:
    """Frames that lie one behind the other, and who holds them."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.places = []
        data = bytearray()
        for frame in frames:
            self.places.append((len(data), len(data) + 4 + len(frame)))
            data += len(frame).to_bytes(4, "big") + frame
        self.view = memoryview(data)
        self.held = 0

    def retain(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class Turn:
    """A gateway, its clients, and what they have sent in one turn."""

    def __init__(self, frames: Sequence[bytes], gateway: ServedGateway | None = None, **rules: Any) -> None:
        self.gateway = gateway or ServedGateway(WHOLE, None, **rules)
        self.role = RunRole(None)
        self.gateway.partition.role = self.role
        kafka = self.gateway.connection.gateway
        self.together = RequestBatcher(kafka, 1 << 20)
        self.at_once = RequestBatcher(kafka, 1 << 20, writes_here=lambda: True)
        self.buffer = Buffer(frames)
        self.clients = [Client(self.gateway) for _ in frames]

    def take(self, *, at_once: bool = False) -> list[Any]:
        received = [(client, *place) for client, place in zip(self.clients, self.buffer.places, strict=True)]
        together = self.at_once if at_once else self.together
        return together.take(received, self.buffer)  # type: ignore[arg-type]

    def take_leading(self, count_max: int = 100) -> int:
        """All of it was sent by the first client."""
        client, end = self.clients[0], self.buffer.places[-1][1]
        return self.together.take_of_one(client, self.buffer, 0, end, count_max, is_whole=False)  # type: ignore[arg-type]

    def take_whole(self, count_max: int = 100) -> int:
        """The same."""
        client, end = self.clients[0], self.buffer.places[-1][1]
        return self.together.take_of_one(client, self.buffer, 0, end, count_max, is_whole=True)  # type: ignore[arg-type]

    def take_at_once(self, count_max: int = 100) -> int:
        """The same."""
        client, end = self.clients[0], self.buffer.places[-1][1]
        served = self.at_once.take_at_once(client, self.buffer, 0, end, count_max)  # type: ignore[arg-type]
        count, self.answer = served or (0, b"")
        return count

    def decide(self, ack: AppendAck) -> None:
        [(on_ack, on_buffer_free)] = self.role.told
        on_buffer_free()
        on_ack(ack)


def general_answers(frames: Sequence[bytes], ack: AppendAck, counts: Sequence[int]) -> list[tuple[Any, Any]]:
    """What the general way answers, and what it says of the connection, when `ack` is of the first."""
    answers, offset = [], ack.base_offset
    for frame, count in zip(frames, counts, strict=True):
        gateway = ServedGateway(GENERAL, replace(ack, base_offset=offset) if ack.error is ErrorCode.NONE else ack)
        slot = gateway.send(frame)
        answers.append((slot.frame, gateway.said))
        offset += count
    return answers


def files_of(directory: Path) -> list[Path]:
    return list(directory.glob("*.log"))


def batch_of(count: int) -> bytes:
    return bytes(build_batch([(0, None, b"x", ())] * count))


@pytest.mark.parametrize("way", ["take", "take_leading", "take_whole"])
def test_a_run_is_answered_with_the_bytes_of_its_requests_one_by_one(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    @given(
        written.filter(lambda ack: -1 <= ack.base_offset < 1 << 62) | refused,
        st.lists(st.tuples(st.sampled_from(list(VERSIONS)), st.integers(1, 5)), min_size=1, max_size=9),
        st.sampled_from([-1, 1]),
    )
    def check(ack: AppendAck, requests: list[tuple[int, int]], acks: int) -> None:
        # Names and ids are of runs of their own.
        requests = [each for each in requests if (each[0] < 13) == (requests[0][0] < 13)]
        if len(requests) < 2 and way != "take_whole":
            return
        frames = [frame_of(version, acks=acks, records=batch_of(count)) for version, count in requests]
        expected = general_answers(frames, ack, [count for _, count in requests])
        turn = Turn(frames)
        assert getattr(turn, way)() == ([] if way == "take" else turn.buffer.places[-1][1])
        assert (turn.role.runs, turn.buffer.held) == ([len(frames)], 1)
        turn.decide(ack)
        assert turn.buffer.held == 0
        if way != "take":
            assert b"".join(turn.clients[0].frames) == b"".join(frame for frame, _ in expected)
        else:
            assert [b"".join(client.frames) for client in turn.clients] == [frame for frame, _ in expected]
        turn.decide(ack)  # a second time does not count
        assert sum(len(client.frames) for client in turn.clients) <= len(frames)
        assert not any(client.lost or client.closed for client in turn.clients)

    check()


@given(
    written.filter(lambda ack: -1 <= ack.base_offset < 1 << 62),
    st.lists(st.tuples(st.sampled_from(list(VERSIONS)), st.integers(1, 5)), min_size=1, max_size=5),
    st.sampled_from([-1, 1]),
)
def test_at_once_requests_are_answered_with_the_same_bytes(
    ack: AppendAck, requests: list[tuple[int, int]], acks: int
) -> None:
    requests = [each for each in requests if (each[0] < 13) == (requests[0][0] < 13)]
    frames = [frame_of(version, acks=acks, records=batch_of(count)) for version, count in requests]
    expected = general_answers(frames, ack, [count for _, count in requests])
    turn = Turn(frames)
    turn.role.info = LogAppendInfo(ack.base_offset, 0, ack.log_append_time_ms, ack.log_start_offset, 0)
    assert turn.take_at_once(len(frames)) == len(frames)
    assert (turn.role.runs, turn.buffer.held) == ([len(frames)], 0)
    client = turn.clients[0]
    assert turn.answer == b"".join(frame for frame, _ in expected)
    assert (client.frames, client.responses.answers, client.lost) == ([], [], [])
    assert len(turn.gateway.deadlines) == 0
    if len(frames) < 2:
        return
    turn = Turn(frames)
    turn.role.info = LogAppendInfo(ack.base_offset, 0, ack.log_append_time_ms, ack.log_start_offset, 0)
    assert turn.take(at_once=True) == []
    assert (turn.role.runs, turn.role.told, turn.buffer.held, len(turn.gateway.deadlines)) == ([len(frames)], [], 0, 0)
    assert [client.frames for client in turn.clients] == [[frame] for frame, _ in expected]
    assert all((each.responses.answers, each.responses.next, each.lost) == ([], 1, []) for each in turn.clients)


@pytest.mark.parametrize("gives_away", [False, True], ids=["before anything is written", "by the disk"])
def test_many_that_cannot_be_written_at_once_are_written_as_ever(gives_away: bool) -> None:
    broken = frame_of(9, records=batch_of(1)[:-1] + b"y")
    for frames, left in (([frame_of(9)] * 3, []), ([frame_of(9), broken, frame_of(9)], [1])):
        turn = Turn(frames)

        def refuse(run: ProduceRun) -> None:
            if run.check(RULES_OF_TOPIC, 0) and gives_away:
                run.assign(0, 0, -1)

        turn.role.write_run = refuse  # type: ignore[method-assign]
        by_one = gives_away and not left
        assert sorted(place for _, *place in turn.take(at_once=True)) == [
            list(place) for index, place in enumerate(turn.buffer.places) if by_one or index in left
        ]
        assert turn.role.runs == ([] if by_one else [len(frames) - len(left)])
        assert [len(each.responses.answers) for each in turn.clients] == [
            int(not by_one and index not in left) for index in range(len(frames))
        ]


def test_a_failure_of_what_is_written_at_once_closes_the_connections_of_that_run_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn = Turn([frame_of(9), frame_of(9), frame_of(9, is_there=False)])

    def fail(run: ProduceRun) -> None:
        raise RuntimeError("for the test")

    turn.role.write_run = fail  # type: ignore[method-assign]
    assert [client for client, *_ in turn.take(at_once=True)] == turn.clients[2:]
    assert [len(client.closed) for client in turn.clients] == [1, 1, 0]
    assert "for the test" in caplog.text


def test_at_once_all_that_was_sent_is_served_or_nothing() -> None:
    plain = frame_of(9)
    broken = frame_of(9, records=batch_of(1)[:-1] + b"y")
    assert Turn([plain] * 3).take_at_once(2) == 0
    for other in (
        frame_of(9, acks=0),
        frame_of(9, index=1),
        frame_of(13),
        broken,
        plain[:5],
        frame_of(9, is_there=False),
    ):
        for frames in ([other], [plain, other], [other, plain]):
            if frames[0] == frames[-1] == frame_of(13):
                continue  # which is plain by itself
            turn = Turn(frames)
            before = bytes(turn.buffer.view)
            assert turn.take_at_once() == 0
            assert (turn.role.runs, turn.buffer.held, bytes(turn.buffer.view)) == ([], 0, before)
            assert (turn.clients[0].frames, turn.clients[0].responses.next) == ([], 0)


def test_where_records_are_to_be_on_disk_first_nothing_is_answered_at_once() -> None:
    turn = Turn([frame_of(9)])
    turn.at_once = turn.together
    assert turn.take_at_once() == 0


def test_what_is_out_of_the_common_is_left_where_it_lies() -> None:
    plain = frame_of(9)
    others = {
        "acks=0": frame_of(9, acks=0),
        "another partition": frame_of(9, index=1),
        "another topic": frame_of(9, is_there=False),
        "by its id": frame_of(13),
        "no batch": frame_of(9, records=bytes(61)),
        "a large batch": frame_of(9, records=bytes(build_batch([(0, None, b"x" * 5_000, ())]))),
        "a broken batch": frame_of(9, records=batch_of(1)[:-1] + b"y"),
        "a key is asked for by nobody": b"\0\x12\0\0\0\0\0\1\xff\xff",
        "half a header": plain[:5],
    }
    for what, other in others.items():
        turn = Turn([plain, other, plain])
        before = bytes(turn.buffer.view)
        assert turn.take() == [(turn.clients[1], *turn.buffer.places[1])], what
        assert turn.role.runs == [2], what
        assert bytes(turn.buffer.view) == before, what
        assert turn.clients[1].responses.answers == [], what


def test_of_one_connection_what_is_out_of_the_common_ends_the_run() -> None:
    plain = frame_of(9)
    broken = frame_of(9, records=batch_of(1)[:-1] + b"y")
    for other in (frame_of(9, acks=0), frame_of(9, index=1), frame_of(13), broken, plain[:5]):
        turn = Turn([plain, plain, other, plain, plain])
        assert turn.take_leading() == turn.buffer.places[1][1]
        assert turn.role.runs == [2]
        assert len(turn.clients[0].responses.answers) == 2
    turn = Turn([plain] * 5)
    assert turn.take_leading(count_max=3) == turn.buffer.places[2][1]
    assert Turn([plain] * 5).take_leading(count_max=1) == 0
    assert Turn([broken, plain, plain]).take_leading() == 0


def test_all_that_one_connection_sent_is_a_run_or_none_of_it_is() -> None:
    plain = frame_of(9)
    broken = frame_of(9, records=batch_of(1)[:-1] + b"y")
    for other in (frame_of(9, acks=0), frame_of(9, index=1), frame_of(13), plain[:5]):
        turn = Turn([plain, plain, other])
        assert (turn.take_whole(), turn.role.runs) == (0, [])
    turn = Turn([plain] * 3)
    assert (turn.take_whole(count_max=2), turn.take_whole(count_max=3)) == (0, turn.buffer.places[-1][1])
    assert (Turn([plain]).take_whole(count_max=0), Turn([broken]).take_whole()) == (0, 0)
    turn = Turn([plain, broken, plain])
    assert turn.take_whole() == turn.buffer.places[0][1], "what is refused, and what is behind it, goes by itself"
    assert (turn.role.runs, len(turn.clients[0].responses.answers)) == ([1], 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda turn: setattr(turn.clients[0].handler, "pending_requests", ()),
        lambda turn: turn.clients[0].handler.waiting_fetches.add(object()),
    ],
    ids=["held back", "behind a fetch that waits"],
)
def test_who_waits_for_something_is_served_by_itself_and_the_others_as_ever(change: Callable[[Turn], None]) -> None:
    turn = Turn([frame_of(9)] * 3)
    change(turn)
    assert (turn.take_at_once(), turn.take_leading(), turn.take_whole(), turn.role.runs) == (0, 0, 0, [])
    left = [(turn.clients[0], *turn.buffer.places[0])]
    assert (turn.take(at_once=True), turn.role.runs) == (left, [2])
    assert (turn.take(), turn.role.runs, turn.buffer.held) == (left, [2, 2], 1)
    assert [len(client.responses.answers) for client in turn.clients] == [0, 1, 1]


def test_where_the_log_takes_no_runs_each_is_served_by_itself() -> None:
    turn = Turn([frame_of(9)] * 3)
    turn.role.takes = False
    assert (turn.take_at_once(), turn.take_leading(), turn.take_whole()) == (0, 0, 0)
    places = [list(place) for place in turn.buffer.places]
    assert sorted(place for _, *place in turn.take()) == places
    assert sorted(place for _, *place in turn.take(at_once=True)) == places
    assert (turn.role.runs, turn.buffer.held) == ([], 0)
    assert not any(client.responses.answers for client in turn.clients)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_run_is_of_one_principal_and_authorized_as_that(at_once: bool) -> None:
    asked = []

    class Rules:
        version = 0

        def allows_on_any(self, *_: object) -> bool:
            return False

        def allows(self, principal: Principal, *_: object) -> bool:
            asked.append(principal.name)
            return principal.name != "mallory"

    turn = Turn([frame_of(9)] * 6, authorizer=Rules())
    for client, name in zip(turn.clients, ["alice", "mallory", "bob", "alice", "mallory", "bob"], strict=True):
        client.handler.principal = Principal("User", name)
    left = turn.take(at_once=at_once)
    assert [client for client, *_ in left] == [turn.clients[1], turn.clients[4]]
    assert (turn.role.runs, set(asked)) == ([2, 2], {"alice", "mallory", "bob"})
    for client in (turn.clients[1], turn.clients[4]):
        assert (client.frames, client.responses.answers) == ([], [])


def test_who_may_not_write_is_refused_by_itself() -> None:
    turn = Turn([frame_of(9)] * 2, **RULES["authorizer"])
    assert len(turn.take()) == 2
    assert turn.take_at_once() == 0
    assert turn.role.runs == []


def test_an_api_without_it_or_of_fewer_versions_gets_each_request_by_itself() -> None:
    for api in (replace(WHOLE, handle_run=None), replace(WHOLE, max_version=12)):
        turn = Turn([frame_of(9)] * 2, ServedGateway(api, None))
        assert len(turn.take()) == 2
        assert (turn.take_at_once() > 0, turn.take_leading()) == (api.max_version == 13, 0)


def test_a_run_whose_time_is_up_is_answered_once_and_then_holds_nothing() -> None:
    turn = Turn([frame_of(9)] * 3)
    assert turn.take() == []
    [(decide, _)] = turn.role.told
    turn.gateway.timer.advance(DISK_MS)
    for client in turn.clients:
        [frame] = client.frames
        response: Any = decode_response(ApiKey.PRODUCE, 9, frame[4:])[1]
        [topic] = response.responses
        assert [each.error_code for each in topic.partition_responses] == [ErrorCode.REQUEST_TIMED_OUT]
    decide(AppendAck(ErrorCode.NONE, base_offset=1))
    assert decide.__self__.in_flight is None  # type: ignore[attr-defined]
    assert [len(client.frames) for client in turn.clients] == [1, 1, 1]
    assert len(turn.gateway.deadlines) == 0


def test_the_time_of_a_run_that_only_this_broker_writes_does_not_count() -> None:
    turn = Turn([frame_of(9)] * 3)
    turn.gateway.partition.flush_before_ack = False
    assert turn.take() == []
    turn.gateway.timer.advance(2 * DISK_MS)
    assert [client.frames for client in turn.clients] == [[], [], []]
    turn.decide(AppendAck(ErrorCode.NONE, base_offset=1))
    assert [len(client.frames) for client in turn.clients] == [1, 1, 1]


def test_where_nothing_can_be_written_here_nothing_is_tried() -> None:
    turn = Turn([frame_of(9)])
    turn.at_once = RequestBatcher(turn.gateway.connection.gateway, 1 << 20, writes_here=lambda: False)
    assert (turn.take_at_once(), turn.role.runs) == (0, [])
    turn = Turn([frame_of(9)] * 2)
    turn.at_once = RequestBatcher(turn.gateway.connection.gateway, 1 << 20, writes_here=lambda: False)
    assert (turn.take(at_once=True), turn.role.runs, turn.buffer.held) == ([], [2], 1)


def test_a_run_that_nobody_will_decide_ends_its_connections() -> None:
    turn = Turn([frame_of(9, acks=1)] * 3)
    assert turn.take() == []
    turn.role.told.clear()
    assert [client.lost for client in turn.clients] == [[0], [0], [0]]


def test_a_failure_in_the_middle_closes_the_connections_of_that_run_alone(caplog: pytest.LogCaptureFixture) -> None:
    turn = Turn([frame_of(9), frame_of(9), frame_of(9, is_there=False)])

    def fail(*_: object, **__: object) -> bool:
        raise RuntimeError("for the test")

    turn.role.append_run = fail  # type: ignore[method-assign]
    assert [client for client, *_ in turn.take()] == turn.clients[2:]
    assert [len(client.closed) for client in turn.clients] == [1, 1, 0]
    assert "for the test" in caplog.text


def test_answers_keep_their_place_among_others_of_their_connection() -> None:
    turn = Turn([frame_of(9)] * 2)
    client = turn.clients[0]
    before = ResponseSlot(client.responses)
    assert turn.take_leading() == turn.buffer.places[1][1]
    behind = ResponseSlot(client.responses)
    behind.send((b"behind",))
    turn.decide(AppendAck(ErrorCode.NONE, base_offset=4))
    assert client.frames == []
    before.send((b"before",))
    assert (client.frames[0], client.frames[-1], len(client.frames)) == (b"before", b"behind", 4)
    assert client.held_bytes == 0


async def served(listener: Listener, frames: Sequence[bytes]) -> list[list[bytes]]:
    """Each on a connection of its own, all of them together; the answers that each connection got."""
    host, port = listener.address
    streams = [await asyncio.open_connection(host, port) for _ in frames]
    for (_, writer), frame in zip(streams, frames, strict=True):
        writer.write(frame)
    answers = []
    for reader, writer in streams:
        writer.write_eof()
        answers.append(split(await reader.read()))
        writer.close()
    return answers


def split(data: bytes) -> list[bytes]:
    frames = []
    while data:
        size = int.from_bytes(data[:4], "big")
        frames.append(data[4 : 4 + size])
        data = data[4 + size :]
    return frames


@pytest.mark.parametrize("flushes", [True, False], ids=["on disk", "written"])
async def test_through_sockets_each_is_told_where_its_own_record_lies(tmp_path: Path, flushes: bool) -> None:
    gateway = await LogGateway(tmp_path).open()
    partition = await gateway.partition()
    partition.flush_before_ack = flushes
    deadlines = Deadlines(gateway.clock, gateway.timer)
    gateway.produce = ProduceService(gateway.replicas, deadlines)  # type: ignore[attr-defined]
    together = RequestBatcher(gateway.gateway, 1 << 20, writes_here=None if flushes else lambda: True)
    config = NetworkConfig()
    listener = Listener(
        "127.0.0.1",
        0,
        WireProtocol("Kafka", gateway.gateway.connect, LengthPrefixReader, together),
        config=config,
        clock=gateway.clock,
        timer=gateway.timer,
    )
    await listener.start()
    runs: list[int] = []
    at_once: list[int] = []
    append_run, write_run = partition.role.append_run, partition.role.write_run

    def noted(run: ProduceRun, **options: Any) -> bool:
        runs.append(len(run))
        return append_run(run, **options)

    def noted_at_once(run: ProduceRun) -> LogAppendInfo | None:
        info = write_run(run)
        at_once.extend([len(run)] * (info is not None))
        return info

    partition.role = SimpleNamespace(  # type: ignore[assignment]
        is_replicated=False,
        append=partition.role.append,
        append_run=noted,
        write_run=noted_at_once,
        fail=partition.role.fail,
    )

    def frame(value: bytes, acks: int) -> bytes:
        payload = frame_of(9, acks=acks, records=bytes(build_batch([(0, None, value, ())])))
        return len(payload).to_bytes(4, "big") + payload

    sent = {}
    for turn in range(4):
        frames = []
        for peer in range(30):
            values = [b"%d-%d-%d" % (turn, peer, number) for number in range(1 + peer % 3)]
            frames.append((values, b"".join(frame(value, (1, -1, -1)[peer % 3]) for value in values)))
        answers = await served(listener, [data for _, data in frames])
        for (values, _), got in zip(frames, answers, strict=True):
            assert len(got) == len(values)
            for value, answer in zip(values, got, strict=True):
                response: Any = decode_response(ApiKey.PRODUCE, 9, answer)[1]
                [topic] = response.responses
                [written_at] = topic.partition_responses
                assert written_at.error_code == ErrorCode.NONE
                assert sent.setdefault(written_at.base_offset, value) is value
    assert any(count > 1 for count in runs)
    for number in range(20):  # each alone; the thread may have something to do for a moment
        value = b"alone-%d" % number
        [[answer]] = await served(listener, [frame(value, -1)])
        response = decode_response(ApiKey.PRODUCE, 9, answer)[1]
        assert sent.setdefault(response.responses[0].partition_responses[0].base_offset, value) is value
    assert not (at_once and flushes)
    await partition.log.flush()
    [file] = files_of(Path(partition.log.directory))
    there = {
        offset: value for offset, _, _, value, *_ in decode_records(file.read_bytes(), max_decompressed_bytes=1 << 20)
    }
    assert there == sent
    assert len(sent) == 4 * 60 + 20
    await listener.close()
    await gateway.close()
