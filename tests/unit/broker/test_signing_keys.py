"""The keys that sign tokens are read at the start, and again when they may be others."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ottla.broker.signing_keys import SOONER_MS, WATCH_MS, KeysSource, SigningKeys, SigningKeysError
from ottla.network.http_get import HttpGetError
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.security.tls_config import Store, TlsConfig
from tests.tokens import TokenIssuer, jwks, write_jwks

ONE, TWO = TokenIssuer("1"), TokenIssuer("2")


@pytest.fixture
async def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
async def environment(timer: ManualTimer) -> AsyncIterator[Environment]:
    tasks = Tasks("keys")
    yield Environment(timer.clock, SeededRng(1), timer, tasks, asyncio.get_running_loop().call_soon)
    await tasks.close()


class Provider:
    """Who publishes keys over HTTP."""

    def __init__(self) -> None:
        self.answer: bytes | None = jwks(ONE)
        self.asked = 0

    async def get(self, url: str, context: ssl.SSLContext | None) -> bytes:
        self.asked += 1
        if self.answer is None:
            raise HttpGetError("nobody there")
        return self.answer


def source(url: str = "http://issuer/keys") -> KeysSource:
    return KeysSource(url, 3_600_000, 100, 10_000)


async def settle(environment: Environment, holds: Callable[[], bool] = lambda: True) -> None:
    async with asyncio.timeout(60):
        while len(environment.tasks) or not holds():  # noqa: ASYNC110 (it knows no events)
            await asyncio.sleep(0)


def names(keys: SigningKeys) -> list[str | None]:
    return [key.key_id for key in keys.keys]


async def test_a_url_is_read_at_the_start_and_every_hour(environment: Environment, timer: ManualTimer) -> None:
    provider = Provider()
    keys = SigningKeys(source(), environment, provider.get)
    await keys.start()
    assert names(keys) == ["1"]
    provider.answer = jwks(ONE, TWO)
    timer.advance(3_599_999)
    await settle(environment)
    assert provider.asked == 1
    timer.advance(1)
    await settle(environment)
    assert (names(keys), provider.asked) == (["1", "2"], 2)
    keys.close()
    timer.advance(99_999_999)
    await settle(environment)
    assert provider.asked == 2


async def test_an_unknown_key_has_them_read_sooner_but_not_as_often_as_strangers_like(
    environment: Environment, timer: ManualTimer
) -> None:
    provider = Provider()
    keys = SigningKeys(source(), environment, provider.get)
    await keys.start()
    for _ in range(1_000):
        keys.miss()
    await settle(environment)
    assert provider.asked == 1  # they were read just now
    provider.answer = jwks(TWO)
    timer.advance(SOONER_MS)
    for _ in range(1_000):
        keys.miss()
    await settle(environment)
    for _ in range(1_000):
        keys.miss()
    await settle(environment)
    assert (names(keys), provider.asked) == (["2"], 2)
    keys.close()


async def test_who_cannot_be_asked_is_asked_again_and_the_keys_of_before_are_used_on(
    environment: Environment, timer: ManualTimer, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider()
    provider.answer = None
    keys = SigningKeys(source(), environment, provider.get)
    await keys.start()
    assert "nobody can log in by OAUTHBEARER" in caplog.text
    for waits_ms in (100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000):
        asked = provider.asked
        timer.advance(waits_ms - 1)
        await settle(environment)
        assert provider.asked == asked
        timer.advance(1)
        await settle(environment)
        assert provider.asked == asked + 1
    provider.answer = jwks(ONE)
    timer.advance(10_000)
    await settle(environment)
    assert names(keys) == ["1"]
    for answer in (None, b"<html>", b'{"keys":'):
        provider.answer = answer
        timer.advance(3_600_000)
        await settle(environment)
        assert names(keys) == ["1"]
    assert caplog.text.count("used on") == 1
    keys.close()


@pytest.mark.parametrize("emptied", [b'{"keys":[]}', jwks(others=({"kty": "oct", "k": "AAAA", "kid": "1"},))])
async def test_who_publishes_keys_no_more_takes_those_of_before_away(
    environment: Environment, timer: ManualTimer, caplog: pytest.LogCaptureFixture, emptied: bytes
) -> None:
    provider = Provider()
    keys = SigningKeys(source(), environment, provider.get)
    await keys.start()
    provider.answer = emptied
    timer.advance(3_600_000)
    await settle(environment)
    assert names(keys) == []
    assert "nobody can log in by OAUTHBEARER" in caplog.text
    provider.answer = b"{"
    timer.advance(100)
    await settle(environment)
    assert names(keys) == []
    provider.answer = jwks(TWO)
    timer.advance(10_000)
    await settle(environment)
    assert names(keys) == ["2"]
    keys.close()


async def test_a_file_is_read_again_when_it_has_changed(
    environment: Environment, timer: ManualTimer, tmp_path: Path
) -> None:
    path = tmp_path / "keys with spaces.json"
    url = write_jwks(path, ONE).replace(" ", "%20")
    keys = SigningKeys(source(url), environment)
    await keys.start()
    assert names(keys) == ["1"]
    write_jwks(path, TWO)
    timer.advance(WATCH_MS)
    await settle(environment)
    assert names(keys) == ["2"]
    path.unlink()
    timer.advance(WATCH_MS)
    await settle(environment)
    assert names(keys) == ["2"]
    write_jwks(path, ONE)
    timer.advance(100)
    await settle(environment)
    assert names(keys) == ["1"]
    keys.close()


@pytest.mark.parametrize("content", [None, b"", b"[]", b" " * (1024 * 1024 + 1)])
async def test_a_broker_does_not_start_with_a_file_that_has_no_keys(
    environment: Environment, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SigningKeysError, match=r"keys\.json cannot be read"):
        await SigningKeys(source(f"file://{path}"), environment).start()


async def test_an_authority_that_cannot_be_read_keeps_the_broker_from_starting(environment: Environment) -> None:
    """Nobody could log in until somebody read the log: it is a mistake in the settings, not a provider that is away."""
    tls = TlsConfig(key_store=Store("PEM"), trust_store=Store("PEM", "/nowhere/ca.pem"))
    keys = SigningKeys(KeysSource("https://127.0.0.1:1/keys", 3_600_000, 100, 10_000, tls), environment)
    with pytest.raises(SigningKeysError, match=r"^sasl\.jaas\.config: ssl\.truststore\.location=/nowhere/ca\.pem"):
        await keys.start()
    keys.close()
