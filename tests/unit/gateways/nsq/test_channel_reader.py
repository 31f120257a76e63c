"""What a client of a channel gets, and what becomes of it, over a log that the test writes."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker import share_read_messages as messages
from ottla.broker import share_readers
from ottla.broker.access import ALLOW_ALL
from ottla.broker.remote_shares import RemoteShares
from ottla.broker.share_readers import SILENT_MS, ShareReaders
from ottla.client.errors import ConnectionLostError
from ottla.gateways.nsq.channel_reader import ChannelReader
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.message_id import message_id
from ottla.gateways.nsq.settlements import FINISHED_LINGER_MS
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.native import build_batch
from ottla.queues.acknowledgements import ACCEPT, RELEASE
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_partition import SharePartition
from ottla.queues.state_batches import StateBatch
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.queues.test_share_partition import share_over

LIMITS = ShareLimits(lock_ms=30_000, deliveries_max=5, locks_max=2_000, read_committed=False)
TIMEOUT_MS = 2_000
TIMEOUT_MAX_MS = 5_000


class Partitions:
    """One share partition, which is always there."""

    def __init__(self, share: SharePartition) -> None:
        self.share = share
        self.waiters: set[asyncio.Event] = set()
        self.readers = 0
        self.error: ApiError | None = None

    async def get(self, *asked: Any) -> SharePartition:
        if self.error is not None:
            raise self.error
        return self.share

    def at_hand(self, *asked: Any) -> SharePartition:
        return self.share

    def loaded(self, group_id: str, place: Any) -> SharePartition:
        return self.share

    def limits(self, group_id: str) -> ShareLimits:
        return LIMITS

    def enter(self, group_id: str, *, is_member: bool) -> None:
        self.readers += 1

    def leave(self, group_id: str, *, is_member: bool) -> None:
        self.readers -= 1

    def add_waiter(self, place: Any, event: asyncio.Event) -> None:
        self.waiters.add(event)

    def remove_waiter(self, place: Any, event: asyncio.Event) -> None:
        self.waiters.discard(event)

    def look_again(self, group_id: str, places: Any) -> None:
        """Nobody else changes it."""

    async def look_now(self, group_id: str, topic_id: UUID) -> None:
        """It begins elsewhere."""
        self.share.lose()

    def tell(self, share: SharePartition | None = None) -> None:
        for event in self.waiters:
            event.set()


class Clock:
    """Goes with the timer."""

    def __init__(self, timer: ManualTimer) -> None:
        self.timer = timer
        self.ms = 0

    def advance(self, ms: int) -> None:
        self.ms += ms
        self.timer.advance(ms)

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.ms


class Elsewhere(Partitions):
    """The same at a broker that does not lead it."""

    async def get(self, *asked: Any) -> SharePartition:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leads")

    def at_hand(self, *asked: Any) -> None:  # type: ignore[override]
        return None

    def loaded(self, group_id: str, place: Any) -> None:  # type: ignore[override]
        return None


class Leader:
    """Reaches the broker that leads, in the same process. `None` for an answer that does not come."""

    def __init__(self, readers: ShareReaders) -> None:
        self.readers = readers
        self.asked: list[object] = []
        self.is_gone = False
        self.holds: asyncio.Event | None = None
        self.has_answered = asyncio.Event()

    async def ask(self, broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
        self.asked.append(messages.decode(data))
        answer = await self.readers.answered(2, data)
        if self.holds is not None and lane.startswith("take"):
            self.has_answered.set()
            await self.holds.wait()
        if self.is_gone:
            raise ConnectionLostError("it is gone")
        return answer


EITHER = pytest.mark.parametrize("led", ["here", "elsewhere"])


class Channel:
    """A channel over a log of five messages, and its clients, at the broker that leads it or at another one."""

    def __init__(self, fd: int, tasks: Tasks, *, is_led_here: bool = True) -> None:
        self.tasks = tasks
        self.fd = fd
        share = share_over(fd, 5, tasks)
        self.partitions = Partitions(share)
        self.prepare()
        self.clock = Clock(cast("ManualTimer", share._leases._timer))
        self.may_send = True
        self.is_paused = False
        self.partitions_here = self.partitions
        self.elsewhere: RemoteShares | None = None
        if not is_led_here:
            readers = ShareReaders(cast("Any", self.partitions), cast("Any", None), 1, self.clock.timer)
            self.remote = Leader(readers)
            self.partitions_here = Elsewhere(share)
            self.led = SimpleNamespace(leader=1)
            led = SimpleNamespace(name="t", partitions=[self.led])
            image = SimpleNamespace(topic_by_id=lambda topic_id: led)
            self.elsewhere = RemoteShares(
                self.remote, lambda: cast("Any", image), 2, ALLOW_ALL, rng=SeededRng(1), tasks=tasks
            )

    def prepare(self) -> None:
        """Have clients be told of what becomes of the share partition."""
        share = self.partitions.share
        cast("Any", share.partition).subscribe = lambda on_change: None
        cast("Any", share.partition).unsubscribe = lambda on_change: None
        share._on_released = share._on_lost = self.partitions.tell

    def client(self, name: str) -> "Client":
        return Client(self, name)


class Client:
    """Collects what is pushed."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.pushed: asyncio.Queue[tuple[bytes, int, bytes]] = asyncio.Queue()
        self.failed: list[NsqError] = []
        self.reader = ChannelReader(
            name,
            "c",
            [(UUID(int=1), 0)],
            cast("Any", channel.partitions_here),
            ANONYMOUS,
            message_timeout_ms=TIMEOUT_MS,
            message_timeout_max_ms=TIMEOUT_MAX_MS,
            send=self._take,
            may_send=lambda: channel.may_send,
            is_paused=lambda: channel.is_paused,
            clock=cast("Any", channel.clock),
            on_failed=self.failed.append,
            elsewhere=channel.elsewhere,
        )
        self.task = asyncio.get_running_loop().create_task(self.reader.run())

    def _take(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size, kind, timestamp_ns, attempts = struct.unpack_from(">iiqH", data, at)
            assert kind == 2
            assert timestamp_ns == 7_000_000
            self.pushed.put_nowait((data[at + 18 : at + 34], attempts, data[at + 34 : at + 4 + size]))
            at += 4 + size

    async def next(self) -> tuple[bytes, int, bytes]:
        return await asyncio.wait_for(self.pushed.get(), 60)

    async def settled(self) -> None:
        """Let what has begun come to rest."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def gone(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def log_of_five(path: Path) -> int:
    batches = [build_batch([(7, None, b"m%d" % number, ())]) for number in range(5)]
    path.write_bytes(b"".join(at.to_bytes(8, "big") + batch[8:] for at, batch in enumerate(batches)))
    return os.open(path, os.O_RDONLY)


@asynccontextmanager
async def channel_over(path: Path, led: str = "here") -> AsyncIterator[Channel]:
    fd = log_of_five(path)
    tasks = Tasks()
    try:
        yield Channel(fd, tasks, is_led_here=led == "here")
    finally:
        await tasks.close()
        os.close(fd)


@EITHER
async def test_no_more_than_the_client_is_ready_for_is_in_flight(tmp_path: Path, led: str) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        client = channel.client("a")
        client.reader.set_ready(2)
        assert [await client.next(), await client.next()] == [
            (message_id(0, 0), 1, b"m0"),
            (message_id(0, 1), 1, b"m1"),
        ]
        await client.settled()
        assert client.pushed.empty()
        client.reader.finish(message_id(0, 0))
        assert (await client.next())[2] == b"m2"
        assert client.reader.in_flight_count == 2
        client.reader.set_ready(0)
        client.reader.finish(message_id(0, 1))
        await client.settled()
        assert client.pushed.empty()
        await client.gone()
        assert channel.partitions.readers == 0


async def test_what_is_finished_together_is_written_once_and_one_that_came_too_late_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel_over(tmp_path / "log") as channel:
        share, asked = channel.partitions.share, []
        begin_settle, settle = share.begin_settle, share.settle

        def seen(member_id: str, runs: Any, *rest: Any, **options: Any) -> Any:
            asked.append(list(runs))
            return begin_settle(member_id, runs, *rest, **options)

        monkeypatch.setattr(share, "begin_settle", seen)
        client = channel.client("a")
        client.reader.set_ready(5)
        for _ in range(5):
            await client.next()
        for offset in (1, 0):
            client.reader.finish(message_id(0, offset))
        assert client.reader.finish_many([3, 3, 1 << 48]) == [3, 1 << 48], "done already, and of another partition"
        await client.reader.all_settled()
        assert asked == [[(0, 1, ACCEPT), (3, 3, ACCEPT)]]
        assert len(cast("Any", share)._writer._states.written) == 1
        assert (share.ledger.start_offset, share.ledger.unfinished_count) == (2, 2)
        for offset in (2, 4):
            client.reader.finish(message_id(0, offset))
        assert await settle("a", [(2, 2, RELEASE)], LIMITS) is ErrorCode.NONE
        await client.reader.all_settled()
        assert share.holder(4) is None, "done although the other was not held any more"
        await client.gone()


@EITHER
async def test_a_client_without_room_has_nothing_once_the_channel_was_emptied_and_is_hung_up_on_once_it_is_gone(
    tmp_path: Path, led: str
) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.next()
        await client.settled()
        before, channel.partitions.share = channel.partitions.share, share_over(channel.fd, 5, channel.tasks)
        channel.prepare()
        before.lose()
        assert (await client.next())[:2] == (message_id(0, 0), 1), "of the state that was read anew"
        channel.partitions.error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "it is gone")
        channel.partitions.share.lose()
        with pytest.raises(ApiError, match="it is gone"):
            await asyncio.wait_for(client.task, 60)


async def test_the_next_message_goes_out_in_the_turn_in_which_one_is_finished(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log") as channel:
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.next()
        await client.settled()
        for offset in range(4):
            assert client.reader.finish_many([offset]) == []
            client.reader.settle_finished()
            client.reader.push_at_hand()
            assert client.pushed.get_nowait()[0] == message_id(0, offset + 1)
            client.reader.push_at_hand()
            assert client.pushed.empty(), "there is no room for another"
        await client.gone()


async def test_what_is_finished_while_a_push_is_under_way_makes_room_for_the_next(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log") as channel:
        share = channel.partitions.share
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.next()
        await client.settled()
        async with share._delivery._acquiring:  # another client is served
            client.reader.finish_many([0])
            client.reader.settle_finished()
            client.reader.push_at_hand()
            await client.settled()
            client.reader.push_at_hand()
            assert client.pushed.empty()
        assert (await client.next())[0] == message_id(0, 1)
        await client.settled()
        assert client.pushed.empty()
        await client.gone()


async def test_two_clients_share_the_messages_and_own_what_they_have(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log") as channel:
        one, other = channel.client("a"), channel.client("b")
        one.reader.set_ready(1)
        first = await one.next()
        with pytest.raises(NsqError, match="client does not own message"):
            other.reader.touch(first[0])  # it has not been ready for anything yet
        other.reader.set_ready(1)
        second = await other.next()
        assert (first[2], second[2]) == (b"m0", b"m1")
        with pytest.raises(NsqError) as raised:
            other.reader.finish(first[0])
        assert raised.value.line == b"E_FIN_FAILED FIN " + first[0] + b" failed client does not own message"
        one.reader.finish(first[0])
        with pytest.raises(NsqError, match="ID not in flight"):
            one.reader.finish(first[0])
        with pytest.raises(NsqError, match="E_TOUCH_FAILED TOUCH 0123456789abcdeX failed ID not in flight"):
            one.reader.touch(b"0123456789abcdeX")
        await one.gone()
        await other.gone()


@EITHER
async def test_a_message_that_is_put_back_comes_again_after_its_delay(tmp_path: Path, led: str) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        client = channel.client("a")
        client.reader.set_ready(5)
        for _ in range(5):
            await client.next()
        client.reader.requeue(message_id(0, 3), 0)
        assert await client.next() == (message_id(0, 3), 2, b"m3")
        client.reader.requeue(message_id(0, 3), 1_000)
        await client.settled()
        channel.clock.advance(999)
        await client.settled()
        assert client.pushed.empty()
        channel.clock.advance(1)
        assert await client.next() == (message_id(0, 3), 3, b"m3")
        assert client.reader.counts.requeue_count == 2
        await client.gone()


@EITHER
async def test_a_message_whose_time_is_up_goes_to_another_client_and_touching_it_has_an_end(
    tmp_path: Path, led: str
) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        one, other = channel.client("a"), channel.client("b")
        one.reader.set_ready(1)
        first = await one.next()
        one.reader.set_ready(0)
        for _ in range(3):
            channel.clock.advance(TIMEOUT_MS - 1)
            await one.settled()
            if one.reader.in_flight_count:
                one.reader.touch(first[0])
                await one.settled()
        assert one.reader.in_flight_count == 0, "touched at 1,999 and 3,998, but no longer than until 5,000"
        other.reader.set_ready(1)
        assert await other.next() == (first[0], 2, b"m0")
        assert one.reader.counts.timeout_count == 1
        await one.gone()
        await other.gone()


@EITHER
async def test_what_a_client_that_is_gone_had_comes_to_another_once_its_time_is_up(tmp_path: Path, led: str) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        one = channel.client("a")
        one.reader.set_ready(5)
        for _ in range(5):
            await one.next()
        await one.gone()
        other = channel.client("b")
        other.reader.set_ready(1)
        await other.settled()
        assert other.pushed.empty()
        channel.clock.advance(TIMEOUT_MS)
        assert (await other.next())[:2] == (message_id(0, 0), 2)
        await other.gone()


@EITHER
async def test_what_a_client_finished_right_before_it_went_is_done(tmp_path: Path, led: str) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        one = channel.client("a")
        one.reader.set_ready(5)
        for _ in range(5):
            await one.next()
        for offset in range(4):
            one.reader.finish(message_id(0, offset))
        one.reader.requeue(message_id(0, 4), 0)
        await one.gone()
        assert channel.partitions.share.ledger.start_offset == 4
        other = channel.client("b")
        other.reader.set_ready(5)
        assert await other.next() == (message_id(0, 4), 2, b"m4")
        await other.gone()


@EITHER
async def test_nothing_is_pushed_to_a_connection_that_does_not_keep_up_or_is_closing(tmp_path: Path, led: str) -> None:
    async with channel_over(tmp_path / "log", led) as channel:
        client = channel.client("a")
        channel.may_send = False
        client.reader.set_ready(1)
        await client.settled()
        assert client.pushed.empty()
        channel.may_send = True
        client.reader.wake()
        first = await client.next()
        client.reader.stop_pushing()
        client.reader.finish(first[0])
        await client.settled()
        assert client.pushed.empty()
        await client.gone()


async def test_finishes_of_several_turns_are_stored_together_within_10_ms(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log") as channel:
        written = cast("Any", channel.partitions.share)._writer._states.written
        client = channel.client("a")
        client.reader.set_ready(1)
        for offset in range(4):
            await client.next()
            client.reader.finish(message_id(0, offset))
            await client.settled()
        assert not written
        channel.clock.advance(FINISHED_LINGER_MS)
        await client.settled()
        assert [(each.start_offset, each.batches) for each in written] == [(4, (StateBatch(0, 3, 2, 1),))]
        await client.gone()


# --- at a broker that does not lead ---------------------------------------------------------------------------------


async def test_clients_at_two_brokers_share_the_messages(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        one, other = channel.client("a"), channel.client("b")
        channel.partitions_here, channel.elsewhere = channel.partitions, None
        at_the_leader = channel.client("a")
        clients = [one, other, at_the_leader]
        for client in clients:
            client.reader.set_ready(1)
        bodies = [(await client.next())[2] for client in clients]
        assert sorted(bodies) == [b"m0", b"m1", b"m2"], "though two of them have the same name at their brokers"
        one.reader.finish(message_id(0, int(bodies[0][1:])))
        assert (await one.next())[2] == b"m3"
        for client in clients:
            await client.gone()
        assert channel.partitions.readers == 0


async def test_a_client_that_found_nothing_is_told_of_what_comes(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        partition = cast("Any", channel.partitions.share.partition)
        subscribed: list[Any] = []
        partition.subscribe, partition.unsubscribe = subscribed.append, subscribed.remove
        partition.high_watermark = partition.last_stable_offset = 0
        client = channel.client("a")
        client.reader.set_ready(5)
        await client.settled()
        takes = [each for each in channel.remote.asked if isinstance(each, messages.Take)]
        assert len(takes) == 1, "it does not ask again and again"
        partition.high_watermark = partition.last_stable_offset = 2
        for on_change in subscribed:
            on_change(partition)
        assert [(await client.next())[2], (await client.next())[2]] == [b"m0", b"m1"]
        await client.gone()
        assert subscribed == []


async def test_a_client_reads_on_at_whoever_leads_when_the_leader_is_gone(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.next()
        await client.settled()
        channel.led.leader, channel.remote.is_gone = -1, True
        channel.partitions.share.lose()
        await client.settled()
        assert not client.task.done(), "it waits for the next leader"
        assert client.reader.in_flight_count == 0, "what another leader delivered is delivered again"
        share = channel.partitions.share = share_over(channel.fd, 5, channel.tasks)
        channel.prepare()
        channel.partitions_here.get = channel.partitions.get  # type: ignore[method-assign]
        client.reader.wake()
        assert (await client.next())[0] == message_id(0, 0)
        assert share.holder(0) == "a", "this broker leads it now"
        await client.gone()


async def test_what_comes_for_a_client_that_has_just_gone_is_given_back_at_once(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        channel.remote.holds = asyncio.Event()
        one = channel.client("a")
        one.reader.set_ready(1)
        await asyncio.wait_for(channel.remote.has_answered.wait(), 60)
        assert channel.partitions.share.holder(0) == "a@2"
        await one.gone()
        channel.remote.holds.set()
        channel.remote.holds = None
        other = channel.client("b")
        other.reader.set_ready(5)
        attempts = dict([(await other.next())[:2] for _ in range(5)])
        assert attempts == {message_id(0, number): 1 + (number == 0) for number in range(5)}, "no time has to pass"
        await other.gone()
        assert channel.partitions.readers == 0


async def test_readers_of_a_broker_that_is_silent_or_was_started_anew_are_forgotten(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        readers = channel.remote.readers

        async def take(incarnation: int) -> messages.Taken:
            asked = messages.Take(
                incarnation, 1, "c", UUID(int=1).bytes, 0, 1_000, [messages.Wanted("a", 1, TIMEOUT_MS)]
            )
            return messages.decode_taken(await readers.answered(2, messages.encode(asked)))

        assert (await take(1)).parts[0].runs == [(0, 0, 1)]
        assert channel.partitions.readers == 1
        assert (await take(2)).parts[0].runs == [(1, 1, 1)], "the first is held until its time is up"
        assert (channel.partitions.readers, channel.partitions.share.holder(0)) == (1, None)
        settle = messages.Settle(2, [messages.Settlement(7, "a", [(1, 1, ACCEPT)], TIMEOUT_MS, 0, 0, 0)])
        codes = messages.decode_codes(await readers.answered(2, messages.encode(settle)))
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "of a partition that nobody has opened"
        channel.clock.advance(SILENT_MS)
        assert channel.partitions.readers == 0
        with pytest.raises(ApiError, match="not a message"):
            await readers.answered(2, b"\xff")


async def test_a_broker_that_was_silent_is_told_that_it_was_forgotten(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        readers = channel.remote.readers
        wanted = [messages.Wanted("a", 1, TIMEOUT_MS)]
        take = messages.encode(messages.Take(1, 1, "c", UUID(int=1).bytes, 0, 1_000, wanted))
        watch = messages.encode(messages.Watch(1, 0))
        await readers.answered(2, take)
        channel.clock.advance(SILENT_MS)
        with pytest.raises(ApiError, match="forgotten"):
            await readers.answered(2, watch)
        assert messages.decode_events(await readers.answered(2, watch)) == [], "once"


async def test_a_client_that_found_nothing_is_told_of_what_comes_though_its_broker_was_silent(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        partition = cast("Any", channel.partitions.share.partition)
        partition.high_watermark = partition.last_stable_offset = 0
        client = channel.client("a")
        client.reader.set_ready(5)
        await client.settled()
        assert channel.partitions.readers == 1
        partition.high_watermark = partition.last_stable_offset = 1
        channel.clock.advance(SILENT_MS)
        await client.settled()
        assert (await client.next())[2] == b"m0"
        await client.gone()
        assert channel.partitions.readers == 0


async def test_what_is_new_is_told_to_the_broker_and_not_to_a_connection_of_it_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_readers, "WATCH_MS_MAX", 600_000)
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        readers = channel.remote.readers
        partition = cast("Any", channel.partitions.share.partition)
        partition.high_watermark = partition.last_stable_offset = 0
        take = messages.Take(1, 1, "c", UUID(int=1).bytes, 0, 1_000, [messages.Wanted("a", 1, TIMEOUT_MS)])
        lost = asyncio.create_task(readers.answered(2, messages.encode(messages.Watch(1, 600_000))))
        taken = await readers.answered(2, messages.encode(take))
        assert messages.decode_taken(taken).parts == []
        waits = asyncio.create_task(readers.answered(2, messages.encode(messages.Watch(1, 600_000))))
        assert messages.decode_events(await lost) == []
        partition.high_watermark = partition.last_stable_offset = 1
        channel.partitions.tell()
        assert messages.decode_events(await waits) == [messages.Event(1)], "and nobody else would take it"

        first = messages.encode(messages.Watch(1, 0, is_first=True))
        assert messages.decode_events(await readers.answered(2, first)) == [messages.Event(1)], "it may be lost"


BROKEN = {
    "a topic id": messages.Take(1, 1, "c", b"short", 0, 1_000, [messages.Wanted("a", 1, TIMEOUT_MS)]),
    "a count": messages.Take(1, 1, "c", UUID(int=1).bytes, 0, 1_000, [messages.Wanted("a", -1, TIMEOUT_MS)]),
    "a kind": messages.Settle(1, [messages.Settlement(1, "a", [(0, 0, 99)], TIMEOUT_MS, 0, 0, 0)]),
    "a topic id of Begin": messages.Begin("c", [(b"", 0, 0)]),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broker_that_asks_for_what_there_cannot_be_is_refused(tmp_path: Path, broken: str) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        with pytest.raises(ApiError, match="not a message") as refused:
            await channel.remote.readers.answered(2, messages.encode(BROKEN[broken]))
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("runs", [[(0, 1 << 40, ACCEPT)], [(5, 0, ACCEPT)], [(0, 0, ACCEPT), (7, 6, ACCEPT)]])
async def test_offsets_that_nobody_holds_are_refused_together(tmp_path: Path, runs: list[tuple[int, int, int]]) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        readers = channel.remote.readers
        wanted = [messages.Wanted("a", 1, TIMEOUT_MS)]
        await readers.answered(2, messages.encode(messages.Take(1, 1, "c", UUID(int=1).bytes, 0, 1_000, wanted)))
        settle = messages.Settle(1, [messages.Settlement(1, "a", runs, TIMEOUT_MS, 0, 0, 0)])
        codes = messages.decode_codes(await readers.answered(2, messages.encode(settle)))
        assert codes[0] in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE)


async def test_readers_go_on_after_an_answer_that_is_none(tmp_path: Path) -> None:
    async with channel_over(tmp_path / "log", "elsewhere") as channel:
        ask, answers = channel.remote.ask, iter([b"\xff"])

        async def broken(broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
            answer = await ask(broker_id, data, lane, timeout_ms)
            return next(answers, answer) if lane == "watch" else answer

        channel.remote.ask = broken  # type: ignore[method-assign]
        partition = cast("Any", channel.partitions.share.partition)
        partition.high_watermark = partition.last_stable_offset = 0
        client = channel.client("a")
        client.reader.set_ready(1)
        await client.settled()
        partition.high_watermark = partition.last_stable_offset = 1
        channel.partitions.tell()
        assert (await client.next())[2] == b"m0"
        await client.gone()
        assert channel.partitions.readers == 0
