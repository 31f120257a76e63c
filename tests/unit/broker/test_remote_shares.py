"""Readers at a broker that does not lead: what is in which order, late, broken, or asked of an older broker."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker import remote_settlements, share_readers
from ottla.broker import share_read_messages as messages
from ottla.broker.share_readers import SILENT_MS
from ottla.client.errors import UnsupportedApiError
from ottla.gateways.nsq.in_flight import InFlight
from ottla.gateways.nsq.message_id import message_id
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import build_batch
from ottla.queues.acknowledgements import ACCEPT
from ottla.queues.record_delivery import Acquired
from ottla.queues.share_state_shard import StateAnswer
from tests.unit.gateways.nsq.test_channel_reader import EITHER, TIMEOUT_MS, Channel, channel_over
from tests.unit.queues.test_share_partition import share_over

WANTED = [messages.Wanted("a", 1, TIMEOUT_MS)]


def take_of(*wanted: messages.Wanted, number: int = 1) -> bytes:
    return messages.encode(messages.Take(1, number, "c", UUID(int=1).bytes, 0, 1_000, list(wanted or WANTED)))


class Held:
    """Answers of one lane, which wait."""

    def __init__(self, channel: Channel, held_lane: str) -> None:
        self.are_held = asyncio.Event()
        self.goes_on = asyncio.Event()
        ask = channel.remote.ask

        async def held(broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
            answer = await ask(broker_id, data, lane, timeout_ms)
            if lane.startswith(held_lane) and not self.goes_on.is_set():
                self.are_held.set()
                await self.goes_on.wait()
            return answer

        channel.remote.ask = held  # type: ignore[method-assign]


async def test_a_message_that_comes_again_before_its_time_out_is_told_stays_with_the_client(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.next()
        await client.settled()
        held = Held(channel, "watch")
        channel.clock.advance(TIMEOUT_MS)
        await client.settled()
        client.reader.set_ready(2)
        assert await client.next() == (message_id(0, 0), 2, b"m0")
        held.goes_on.set()
        await client.next()
        await client.settled()
        assert client.reader.in_flight_count == 2
        client.reader.finish(message_id(0, 0))
        await client.reader.all_settled()
        assert channel.partitions.share.ledger.start_offset == 1
        await client.gone()


async def test_a_message_whose_time_was_up_before_it_came_is_not_in_flight_for_ever(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        held = Held(channel, "take")
        client = channel.client("a")
        client.reader.set_ready(1)
        await asyncio.wait_for(held.are_held.wait(), 60)
        channel.clock.advance(TIMEOUT_MS)
        await client.settled()
        held.goes_on.set()
        await client.settled()
        assert [client.pushed.get_nowait()[:2] for _ in range(2)] == [(message_id(0, 0), 1), (message_id(0, 0), 2)]
        assert client.reader.in_flight_count == 1
        await client.gone()


@EITHER
@pytest.mark.parametrize("says", ["CLS", "RDY 0", "pause"])
async def test_a_client_gets_nothing_that_comes_after_it_wants_nothing_more(
    tmp_path: Path, led: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        share = channel.partitions.share
        acquire, begins, goes_on = share.acquire, asyncio.Event(), asyncio.Event()

        async def slow(*asked: Any, **more: Any) -> Acquired:
            acquired = await acquire(*asked, **more)
            begins.set()
            await goes_on.wait()
            return acquired

        monkeypatch.setattr(share, "acquire", slow)
        client = channel.client("a")
        client.reader.set_ready(2)
        await asyncio.wait_for(begins.wait(), 60)
        if says == "CLS":
            client.reader.stop_pushing()
        elif says == "RDY 0":
            client.reader.set_ready(0)
        else:
            channel.is_paused = True
        goes_on.set()
        await client.settled()
        assert client.pushed.empty()
        channel.is_paused = False
        other = channel.client("b")
        other.reader.set_ready(5)
        assert sorted([(await other.next())[2] for _ in range(5)]) == [b"m0", b"m1", b"m2", b"m3", b"m4"]
        await client.gone()
        await other.gone()


async def test_a_broker_that_read_nothing_for_a_while_is_not_taken_for_one_that_was_silent(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        first = channel.client("a")
        first.reader.set_ready(1)
        await first.next()
        first.reader.finish(message_id(0, 0))
        await first.gone()
        await first.settled()
        assert channel.partitions.readers == 0
        channel.clock.advance(SILENT_MS)
        second = channel.client("b")
        second.reader.set_ready(1)
        assert (await second.next())[2] == b"m1"
        await second.settled()
        second.reader.finish(message_id(0, 1))  # it has it still
        assert (await second.next())[2] == b"m2"
        await second.gone()


async def test_one_answer_has_a_few_megabytes_at_most_and_the_readers_that_are_left_are_served_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_readers, "TAKEN_BYTES_MAX", 1)
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        held = Held(channel, "take")
        clients = [channel.client(f"c{number}") for number in range(5)]
        for client in clients:
            client.reader.set_ready(1)
        await asyncio.wait_for(held.are_held.wait(), 60)
        held.goes_on.set()
        assert sorted([(await client.next())[2] for client in clients]) == [b"m0", b"m1", b"m2", b"m3", b"m4"]
        for client in clients:
            await client.gone()


async def test_who_reads_a_large_batch_message_by_message_is_not_sent_all_of_it_each_time(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        path = tmp_path / "large"
        path.write_bytes(build_batch([(7, None, bytes([number]) * 10_000, ()) for number in range(5)]))
        fd = os.open(path, os.O_RDONLY)
        channel.partitions.share = share_over(fd, 5, channel.tasks)
        channel.prepare()
        taken = messages.decode_taken(await channel.remote.readers.answered(2, take_of()))
        assert taken.parts[0].runs == [(0, 0, 1)]
        assert len(taken.parts[0].records) < 11_000
        client = channel.client("b")
        client.reader.set_ready(1)
        for number in range(1, 5):
            message = await client.next()
            assert message == (message_id(0, number), 1, bytes([number]) * 10_000)
            client.reader.finish(message[0])
        await client.gone()
        os.close(fd)


async def test_what_one_reader_got_is_its_own_though_the_next_cannot_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        share = channel.partitions.share
        acquire, readers = share.acquire, channel.remote.readers

        async def fails(member_id: str, *asked: Any, **more: Any) -> Acquired:
            if member_id == "b@2":
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "unreadable")
            return await acquire(member_id, *asked, **more)

        monkeypatch.setattr(share, "acquire", fails)
        both = take_of(messages.Wanted("a", 1, TIMEOUT_MS), messages.Wanted("b", 1, TIMEOUT_MS))
        taken = messages.decode_taken(await readers.answered(2, both))
        assert [part.runs for part in taken.parts] == [[(0, 0, 1)]]
        taken = messages.decode_taken(await readers.answered(2, take_of(messages.Wanted("b", 1, TIMEOUT_MS))))
        assert (taken.error, taken.parts) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


@EITHER
async def test_clients_wait_while_the_state_of_their_channel_moves(tmp_path: Path, led: str) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        channel.partitions.error = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "it moves")
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.settled()
        assert not client.task.done()
        channel.partitions.error = None
        client.reader.wake()
        assert (await client.next())[2] == b"m0"
        await client.gone()


async def test_a_broker_whose_replica_is_offline_has_the_messages_from_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:

        async def offline(*asked: Any) -> Any:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is broken")

        monkeypatch.setattr(channel.partitions_here, "get", offline)
        client = channel.client("a")
        client.reader.set_ready(1)
        assert (await client.next())[2] == b"m0"
        await client.gone()


async def test_touches_do_not_wait_until_what_was_finished_before_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_settlements, "PATIENCE_S", 0)
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        share, goes_on = channel.partitions.share, asyncio.Event()
        states = cast("Any", share)._writer._states
        write = states.write

        async def slow(request: Any) -> Any:
            await goes_on.wait()
            return await write(request)

        states.write = slow
        client = channel.client("a")
        client.reader.set_ready(2)
        first, second = await client.next(), await client.next()
        client.reader.set_ready(0)
        client.reader.requeue(first[0], 0)
        await client.settled()
        channel.clock.advance(TIMEOUT_MS - 1)
        client.reader.touch(second[0])
        await client.settled()
        channel.clock.advance(TIMEOUT_MS - 1)
        await client.settled()
        assert client.reader.in_flight_count == 1, "it was renewed"
        goes_on.set()
        await client.gone()


@EITHER
@pytest.mark.parametrize("says", ["FIN", "REQ"])
async def test_a_client_is_told_what_it_said_in_vain_before_its_close_is_answered(
    tmp_path: Path, led: str, says: str
) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        client = channel.client("a")
        client.reader.set_ready(2)
        await client.next()
        await client.next()
        client.reader.set_ready(0)
        states = cast("Any", channel.partitions.share)._writer._states

        async def refuse(request: Any) -> Any:
            return StateAnswer(ErrorCode.FENCED_LEADER_EPOCH)

        states.write = refuse
        for offset in (0, 1):
            if says == "FIN":
                client.reader.finish(message_id(0, offset))
            else:
                client.reader.requeue(message_id(0, offset), 0)
        await client.reader.all_settled()
        assert [each.line for each in client.failed] == [
            b"E_%s_FAILED %s %s failed NOT_LEADER_OR_FOLLOWER: it may come again"
            % (says.encode(), says.encode(), message_id(0, offset))
            for offset in (0, 1)
        ]
        await client.gone()


async def test_a_client_has_nothing_once_the_leader_was_told_to_empty_the_channel(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        client = channel.client("a")
        client.reader.set_ready(1)
        assert (await client.next())[2] == b"m0"
        await client.settled()
        channel.partitions.share.skip_to(4)
        channel.remote.readers.begin_anew("g", (UUID(int=1), 0))
        assert (await client.next())[2] == b"m4", "it has room again, though it says nothing of the first"
        await client.gone()
        assert channel.partitions.readers == 0


BROKEN = {
    "too many parts": [messages.Part(b"", [(0, 0, 1)]), messages.Part(b"", [(1, 1, 1)])],
    "too many messages": [messages.Part(b"", [(0, 1 << 40, 1)])],
    "an end before the start": [messages.Part(b"", [(5, 0, 1)])],
    "no delivery": [messages.Part(b"", [(0, 0, 0)])],
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_readers_go_on_after_a_leader_gave_what_nobody_asked_for(tmp_path: Path, broken: str) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        ask, answers = channel.remote.ask, iter([messages.encode(messages.Taken(0, "", BROKEN[broken]))])

        async def lies(broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
            if lane.startswith("take") and (answer := next(answers, None)) is not None:
                return answer
            return await ask(broker_id, data, lane, timeout_ms)

        channel.remote.ask = lies  # type: ignore[method-assign]
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.settled()
        client.reader.wake()
        assert (await client.next())[2] == b"m0"
        await client.gone()


async def test_clients_are_told_to_go_where_an_older_broker_leads_and_that_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with channel_over(tmp_path / "log", "elsewhere") as channel:

        async def older(broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
            raise UnsupportedApiError("it does not know API 31003")

        channel.remote.ask = older  # type: ignore[method-assign]
        for name in ("a", "b"):
            client = channel.client(name)
            client.reader.set_ready(1)
            with pytest.raises(ApiError, match="broker 1 leads it, and is of an older version"):
                await asyncio.wait_for(client.task, 60)
        assert [each.message.partition(":")[0] for each in caplog.records] == [
            "broker 1 is of a version that delivers NSQ channels to its own clients alone"
        ]


def test_messages_that_timed_out_are_found_by_their_attempts_and_no_more_is_looked_at_than_there_are() -> None:
    in_flight = InFlight()
    in_flight.add(0, [(0, 4, 1), (7, 7, 3)], 5)
    assert in_flight.take_timed_out(1, 0, 4, 1) == 0
    assert in_flight.take_timed_out(0, 7, 7, 2) == 0, "it came again since"
    assert in_flight.take_timed_out(0, 3, (1 << 63) - 1, 1) == 2
    assert in_flight.count == 4
    assert in_flight.take_many([0, 3]) == ({0: [0]}, [3])
    assert in_flight.delivered_ms(0, 7) == 5


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x93\xa7readers\xa1\xff\xc4\x10" + bytes(16)])
async def test_bytes_that_are_no_message_are_refused(tmp_path: Path, data: bytes) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        with pytest.raises(ApiError, match="not a message"):
            await channel.remote.readers.answered(2, data)


@pytest.mark.parametrize("number", [-1, 1 << 63])
async def test_numbers_that_are_no_offsets_are_refused(tmp_path: Path, number: int) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        settle = messages.Settle(1, [messages.Settlement(1, "a", [(number, number, ACCEPT)], TIMEOUT_MS, 0, 0, 0)])
        with pytest.raises(ApiError, match="not a message"):
            await channel.remote.readers.answered(2, messages.encode(settle))
