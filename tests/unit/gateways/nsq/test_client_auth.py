"""What AUTH lets a client do, in which order, and for how long."""

import asyncio
from functools import partial
from typing import cast

import pytest

from ottla.gateways.nsq.auth_server import (
    Authorizations,
    AuthServers,
    AuthUnavailableError,
    _authorizations,
    parse_auth_server,
)
from ottla.gateways.nsq.client_auth import ClientAuth
from ottla.gateways.nsq.error import NsqError
from ottla.runtime.clock import ManualClock
from ottla.settings.definition import InvalidSettingError

ALL = b'{"ttl":60,"identity":"i","authorizations":[{"topic":"","channels":[""],"permissions":["publish","subscribe"]}]}'
NONE = b'{"ttl":60,"authorizations":[{"topic":"^$","channels":[],"permissions":[]}]}'


class Servers:
    """Answers one after the other, each once it is let go."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def ask(self, *told: object, **others: object) -> Authorizations:
        await self.goes_on.wait()
        answer = self.answers.pop(0)
        if answer is None:
            raise AuthUnavailableError("nobody is there")
        return await _authorizations(answer)


def auth_over(servers: Servers, clock: ManualClock) -> ClientAuth:
    return ClientAuth(cast("AuthServers", servers), lambda: ("10.0.0.7", False, ""), clock)


async def test_what_comes_behind_an_auth_waits_and_keeps_its_order() -> None:
    servers = Servers(ALL)
    servers.goes_on.clear()
    auth, seen = auth_over(servers, ManualClock()), []
    with pytest.raises(NsqError, match="E_AUTH_FIRST AUTH required before PUB"):
        auth.check("PUB", "t", "")
    auth.begin()
    auth.check("PUB", "t", "")  # is for its turn

    async def publish(number: int) -> None:
        await auth.in_turn("PUB", "t", "")
        seen.append(number)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(auth.authenticate(b"secret"))
        for number in range(5):
            tasks.create_task(publish(number))
        await asyncio.sleep(0)
        servers.goes_on.set()
    assert seen == [0, 1, 2, 3, 4]
    auth.check("PUB", "t", "")


async def test_nothing_is_done_behind_an_auth_that_was_refused() -> None:
    auth = auth_over(Servers(None), ManualClock())
    auth.begin()
    told = await asyncio.gather(
        auth.authenticate(b"secret"),
        auth.in_turn("PUB", "t", ""),
        auth.in_turn("SUB", "t", "c"),
        return_exceptions=True,
    )
    assert [str(each) for each in told] == ["E_AUTH_FAILED AUTH failed"] * 3


async def test_an_answer_is_asked_for_again_when_it_has_expired() -> None:
    clock, servers = ManualClock(), Servers(ALL, ALL, NONE)
    auth = auth_over(servers, clock)
    auth.begin()
    await auth.authenticate(b"secret")
    clock.advance(59_999)
    await auth.in_turn("PUB", "t", "")
    assert len(servers.answers) == 2
    clock.advance(1)
    auth.check("PUB", "t", "")
    await asyncio.gather(auth.in_turn("PUB", "t", ""), auth.in_turn("PUB", "u", ""))
    assert len(servers.answers) == 1, "once for both"
    clock.advance(60_000)
    with pytest.raises(NsqError, match='E_UNAUTHORIZED AUTH failed for SUB on "t" "c"'):
        await auth.in_turn("SUB", "t", "c")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b'{"ttl":0}',
        b'{"ttl":"5"}',
        b'{"ttl":5,"authorizations":[{"topic":"("}]}',
        b'{"ttl":5,"authorizations":[{"topic":"a)|(b"}]}',
        b'{"ttl":5,"authorizations":[{"topic":"(((a{1000}){1000}){1000})"}]}',
        b'{"ttl":5,"authorizations":[{"channels":["[a"]}]}',
        b'{"ttl":5,"authorizations":[{"permissions":["own"]}]}',
        b'{"ttl":5,"authorizations":[' + b",".join([b"{}"] * 1001) + b"]}",
    ],
)
async def test_an_answer_that_cannot_be_used_is_none(answer: bytes) -> None:
    with pytest.raises(ValueError):
        await _authorizations(answer)


async def test_others_get_a_turn_between_the_expressions_of_an_answer() -> None:
    rules = b",".join(b'{"topic":"x%d","permissions":["publish"]}' % number for number in range(999))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = await _authorizations(b'{"ttl":5,"authorizations":[' + rules + b"]}")
    beside.cancel()
    assert turns >= 999
    assert found.count == 999
    assert found.allows("x998", "") is False, "there is no channel"


async def test_a_secret_that_no_server_takes_is_refused() -> None:
    servers = AuthServers([parse_auth_server("127.0.0.1:1")], "", lambda below: 0)
    for secret in (bytes(16 * 1024 + 1), b"x"):
        with pytest.raises(AuthUnavailableError):
            await servers.ask(secret, "", has_tls=False, common_name="")


@pytest.mark.parametrize(
    "url", ["http://{}@host/auth", "http://{}@host:x/auth", "http://{}@host?a=b", "ftp://{}@host", "{}@host:1"]
)
def test_a_password_in_the_address_of_an_auth_server_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSettingError) as refusal:
        parse_auth_server(url.format("user:pencil"))
    assert "pencil" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "host", "ftp://host", "http://", "http://host:x", "http://host?a=b", "host:65536"]
)
def test_what_is_no_address_of_an_auth_server_is_refused(text: str) -> None:
    with pytest.raises(InvalidSettingError):
        parse_auth_server(text)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b" " * 2_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        b"no HTTP at all",
        b"",
    ],
    ids=["too large", "cut off", "an error", "nonsense", "nothing"],
)
async def test_the_next_server_is_asked_where_one_answers_with_what_is_no_answer(answer: bytes) -> None:
    async def answer_with(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        writer.close()

    good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ALL) + ALL
    listening = [await asyncio.start_server(partial(answer_with, each), "127.0.0.1", 0) for each in (answer, good)]
    places = [f"127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in listening]
    servers = AuthServers([parse_auth_server(each) for each in places], "", lambda below: 0)
    found = await servers.ask(b"secret", "10.0.0.7", has_tls=True, common_name="c")
    assert (found.identity, found.allows("t", ""), found.allows("t", "c")) == ("i", True, True)
    for each in listening:
        each.close()
