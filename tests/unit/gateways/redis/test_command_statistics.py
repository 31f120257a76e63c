"""What INFO says of the commands that ran, and of those that failed."""

from __future__ import annotations

import asyncio

import pytest

from ottla.gateways.redis.command_statistics import CODES_MAX, CommandStatistics
from ottla.gateways.redis.session import BlockError
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory


def test_commands_that_fail_are_told_from_those_that_are_refused() -> None:
    async def run() -> dict[str, object]:
        server = StreamsInMemory(b"s")
        session = server.session()
        for command in (
            "XADD s 1-0 f v",
            "XADD s 1-0 f v",
            "XADD s",
            "FOO",
            "XGROUP CREATE s g 0",
            "xgroup create s g 0",
        ):
            await server.run(session, *command.encode().split())
        await server.run(session, b"XGROUP", b"\xff")
        return server.gateway.statistics.of_commands()

    none = "usec=0,usec_per_call=0.00"
    assert asyncio.run(run()) == {
        "cmdstat_xadd": f"calls=2,{none},rejected_calls=1,failed_calls=1",
        "cmdstat_xgroup": f"calls=0,{none},rejected_calls=1,failed_calls=0",
        "cmdstat_xgroup|create": f"calls=2,{none},rejected_calls=0,failed_calls=1",
    }


def test_a_command_that_waits_counts_when_it_is_answered() -> None:
    async def run() -> list[object]:
        server = StreamsInMemory(b"s")
        session = server.session()
        counted: list[object] = []
        waiting = b"XREAD BLOCK 0 STREAMS s 1-0".split()
        await server.run(session, *b"XADD s 1-0 f v".split())
        with pytest.raises(BlockError):
            await server.run(session, *waiting)
        counted.append("cmdstat_xread" in server.gateway.statistics.of_commands())
        await server.run(session, *b"XADD s 2-0 f v".split())
        await server.run(session, *waiting)
        counted.append(server.gateway.statistics.of_commands()["cmdstat_xread"])
        return counted

    assert asyncio.run(run()) == [False, "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0"]


def test_errors_are_counted_by_their_codes_of_which_there_is_a_bound() -> None:
    statistics = CommandStatistics()
    for line in (b"ERR no such key", b"ERR syntax error", b"NOGROUP No such key"):
        statistics.answered(line)
    assert statistics.of_errors() == {"errorstat_ERR": "count=2", "errorstat_NOGROUP": "count=1"}
    for number in range(2 * CODES_MAX):
        statistics.answered(b"E%d" % number)
    assert len(statistics.of_errors()) == CODES_MAX
    assert statistics.errors_total == 3 + 2 * CODES_MAX
    statistics.reset()
    assert (statistics.of_errors(), statistics.errors_total) == ({}, 0)


def test_the_time_of_a_command_is_told_in_microseconds() -> None:
    statistics = CommandStatistics()
    statistics.ran("xrange", 1)
    statistics.ran("xrange", 0)
    assert statistics.of_commands()["cmdstat_xrange"] == (
        "calls=2,usec=1000,usec_per_call=500.00,rejected_calls=0,failed_calls=0"
    )
