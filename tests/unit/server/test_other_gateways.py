"""A gateway beside Kafka's on one broker: served in its own protocol, under the limits that all listeners share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.client.admin.admin import Admin
from ottla.network.address import Address
from ottla.runtime.timer import ManualTimer
from ottla.server.server import Server
from tests.unit.network.peers import until
from tests.unit.server.line_gateway import LINE_BYTES_MAX, NAME, PUSHED, LineGateway
from tests.unit.server.whole_broker import alter, broker, client

LINE = b"a line\r\n"


class House:
    """A broker with both gateways, and clients of lines."""

    def __init__(self, server: Server, lines: LineGateway, timer: ManualTimer) -> None:
        self.server = server
        self.lines = lines
        self.timer = timer
        self.writers: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> Address:
        return self.server.other_addresses[NAME]

    async def connect(self, address: Address | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*(address or self.address), limit=4096)
        self.writers.append(writer)
        return reader, writer


@asynccontextmanager
async def house(directory: Path, **settings: str) -> AsyncIterator[House]:
    lines, timer = LineGateway(), ManualTimer()
    given = {name.replace("_", "."): value for name, value in settings.items()}
    async with broker(directory, given, [lines.at_a_free_port], timer) as server:
        made = House(server, lines, timer)
        try:
            async with asyncio.timeout(60):
                yield made
        finally:
            for event in lines.events.values():  # or its stop would wait for the answers
                event.set()
            for writer in made.writers:
                writer.close()


async def test_both_protocols_are_served_beside_each_other(tmp_path: Path) -> None:
    async with house(tmp_path) as made:
        reader, writer = await made.connect()
        writer.write(b"one\r\ntwo\r\n\r\nfour\r\n")
        assert await reader.readexactly(18) == b"one\r\ntwo\r\n\r\nfour\r\n"
        async with client(made.server) as cluster:
            assert len((await Admin(cluster).describe_cluster()).brokers) == 1
        assert list(made.server.addresses) == ["PLAINTEXT"], "what clients of Kafka are told of"
        writer.write(LINE)
        assert await reader.readline() == LINE


async def test_answers_keep_the_order_of_their_lines_and_what_is_pushed_waits_for_none(tmp_path: Path) -> None:
    async with house(tmp_path) as made:
        reader, writer = await made.connect()
        writer.write(b"first\r\nlater x\r\nlater y\r\npush 2\r\nlast\r\n")
        assert await reader.readexactly(7 + 2 * len(PUSHED)) == b"first\r\n" + PUSHED * 2
        made.lines.events["y"].set()
        await asyncio.sleep(0)
        made.lines.events["x"].set()
        assert await reader.readexactly(32) == b"later x\r\nlater y\r\npush 2\r\nlast\r\n"


async def test_a_task_holds_back_what_is_behind_it_and_counts_with_those_of_all_gateways(tmp_path: Path) -> None:
    async with house(tmp_path) as made:
        reader, writer = await made.connect()
        writer.write(b"task x\r\ntask y\r\nlast\r\n")
        await until(lambda: "x" in made.lines.events)
        [connection], gate = made.lines.connections, made.server.services.broker.task_gate
        assert (connection.seen, gate.bytes_inside) == ([b"task x"], len(b"task x"))
        made.lines.events["x"].set()
        assert await reader.readline() == b"task x\r\n"
        await until(lambda: "y" in made.lines.events)
        assert connection.seen == [b"task x", b"task y"]
        made.lines.events["y"].set()
        assert await reader.readexactly(14) == b"task y\r\nlast\r\n"
        assert gate.bytes_inside == 0


async def test_a_line_above_the_limit_of_its_protocol_ends_its_connection_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with house(tmp_path) as made:
        reader, writer = await made.connect()
        other_reader, other_writer = await made.connect()
        writer.write(LINE + bytes(LINE_BYTES_MAX + 1))
        assert await reader.read() == LINE
        assert f"a line is longer than {LINE_BYTES_MAX} bytes" in caplog.text
        other_writer.write(LINE)
        assert await other_reader.readline() == LINE


async def test_connections_of_all_listeners_count_together(tmp_path: Path) -> None:
    async with house(tmp_path, max_connections="2") as made:
        await made.connect(made.server.address)
        reader, writer = await made.connect()
        writer.write(LINE)
        assert await reader.readline() == LINE
        for address in (made.address, made.server.address):
            refused, _ = await made.connect(address)
            assert await refused.read() == b""
        writer.close()
        await until(lambda: made.lines.connections[0].is_closed)
        kafka, kafka_writer = await made.connect(made.server.address)
        kafka_writer.write(b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x07\x00\x04test")
        assert (await kafka.readexactly(8))[4:] == b"\x00\x00\x00\x07"


async def test_an_idle_client_is_closed_and_one_that_waits_for_an_answer_is_not(tmp_path: Path) -> None:
    async with house(tmp_path, connections_max_idle_ms="60000") as made:
        idle, _ = await made.connect()
        waiting, writer = await made.connect()
        writer.write(b"later x\r\n")
        await until(lambda: "x" in made.lines.events)
        for _ in range(3):
            made.timer.advance(60_000)
        assert await idle.read() == b""
        made.lines.events["x"].set()
        assert await waiting.readline() == b"later x\r\n"


async def test_who_does_not_read_what_is_pushed_is_pushed_no_more_until_it_does(tmp_path: Path) -> None:
    count = 1_000
    async with house(tmp_path) as made:
        reader, writer = await made.connect()
        writer.write(b"push %d\r\n" % count)
        await until(lambda: made.lines.connections and made.lines.connections[0].pushed)
        [pushing] = made.lines.connections
        await until(lambda: pushing.connection.pending_bytes > len(PUSHED) and pushing.connection.is_blocked)
        assert pushing.pushed < count
        assert pushing.connection.pending_bytes <= 256 * 1024 + len(PUSHED)
        assert await reader.readline() == b"push %d\r\n" % count
        assert await reader.readexactly(count * len(PUSHED)) == PUSHED * count
        assert pushing.connection.pending_bytes == 0


async def test_a_broker_that_stops_answers_what_it_has_begun_and_lets_nobody_in(tmp_path: Path) -> None:
    async with house(tmp_path) as made:
        reader, writer = await made.connect()
        writer.write(b"later x\r\n")
        await until(lambda: "x" in made.lines.events)
        address = made.address
        stopping = asyncio.ensure_future(made.server.stop())
        await until(lambda: made.lines.connections[0].connection.state.name == "DRAINING")
        with pytest.raises(ConnectionRefusedError):
            await made.connect(address)
        made.lines.events["x"].set()
        assert await reader.read() == b"later x\r\n"
        await stopping


async def test_listeners_of_kafka_change_and_the_others_stay(tmp_path: Path) -> None:
    async with house(tmp_path) as made, client(made.server) as cluster:
        reader, writer = await made.connect()
        before = made.address
        await alter(cluster, "1", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT")
        await alter(cluster, "1", "listeners", "PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:0")
        assert (list(made.server.addresses), made.address) == (["PLAINTEXT", "MORE"], before)
        writer.write(LINE)
        assert await reader.readline() == LINE
