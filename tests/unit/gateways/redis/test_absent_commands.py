"""Commands about functions, scripts and other things that there are none of: who asks is told so, and none is made."""

from __future__ import annotations

import asyncio

import pytest

from ottla.gateways.redis.other_commands import NOT_SERVED, OF_OTHER_TYPES
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory


def reply_to(command: str) -> bytes:
    async def run() -> bytes:
        server = StreamsInMemory()
        return await server.run(server.session(), *command.encode().split())

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("FUNCTION FLUSH", b"+OK\r\n"),
        ("function flush async", b"+OK\r\n"),
        ("FUNCTION LIST WITHCODE LIBRARYNAME x", b"*0\r\n"),
        ("FUNCTION STATS", b"*4\r\n$14\r\nrunning_script\r\n$-1\r\n$7\r\nengines\r\n*0\r\n"),
        ("SCRIPT FLUSH SYNC", b"+OK\r\n"),
        ("SCRIPT EXISTS a b", b"*2\r\n:0\r\n:0\r\n"),
        ("SLOWLOG GET", b"*0\r\n"),
        ("SLOWLOG GET -1", b"*0\r\n"),
        ("SLOWLOG LEN", b":0\r\n"),
        ("SLOWLOG RESET", b"+OK\r\n"),
        ("LATENCY RESET", b":0\r\n"),
        ("LATENCY LATEST", b"*0\r\n"),
        ("LATENCY HISTORY command", b"*0\r\n"),
        ("LATENCY HISTOGRAM", b"*0\r\n"),
        ("MODULE LIST", b"*0\r\n"),
        ("LASTSAVE", b":1000\r\n"),
        ("ROLE", b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
    ],
)
def test_what_is_asked_for_is_not_there(command: str, reply: bytes) -> None:
    assert reply_to(command) == reply


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("FUNCTION DELETE x", b"-ERR Library not found"),
        ("FUNCTION KILL", b"-NOTBUSY No scripts in execution right now."),
        ("FUNCTION FLUSH NOW", b"-ERR FUNCTION FLUSH only supports SYNC|ASYNC option"),
        ("FUNCTION LIST FOO", b"-ERR Unknown argument FOO"),
        ("FUNCTION LIST LIBRARYNAME", b"-ERR library name argument was not given"),
        ("FUNCTION LOAD x", b"-ERR FUNCTION LOAD is not served: there are no functions"),
        ("FUNCTION FOO", b"-ERR unknown subcommand 'FOO'. Try FUNCTION HELP."),
        ("FUNCTION", b"-ERR wrong number of arguments for 'function' command"),
        ("SCRIPT FLUSH NOW", b"-ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        ("SCRIPT KILL", b"-NOTBUSY No scripts in execution right now."),
        ("SCRIPT LOAD x", b"-ERR SCRIPT LOAD is not served: there are no scripts"),
        ("SLOWLOG GET -2", b"-ERR count should be greater than or equal to -1"),
        ("SLOWLOG GET 1 2", b"-ERR wrong number of arguments for 'slowlog|get' command"),
        ("LATENCY DOCTOR", b"-ERR LATENCY DOCTOR is not served: the broker's metrics tell how long requests take"),
        ("MODULE LOAD x", b"-ERR MODULE LOAD is not served: there are no modules"),
        ("CLUSTER INFO", b"-ERR This instance has cluster support disabled"),
        ("CLUSTER FOO", b"-ERR unknown subcommand 'FOO'. Try CLUSTER HELP."),
        ("READONLY", b"-ERR This instance has cluster support disabled"),
        ("DEBUG SLEEP 0", b"-ERR DEBUG command not allowed"),
    ],
)
def test_what_would_make_something_is_refused(command: str, error: bytes) -> None:
    assert reply_to(command) == error + b"\r\n"


def test_no_command_is_served_and_said_not_to_be() -> None:
    async def run() -> set[str]:
        return {each.name for each in StreamsInMemory().gateway.table.values()}

    assert not asyncio.run(run()) & (NOT_SERVED | OF_OTHER_TYPES)
