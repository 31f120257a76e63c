"""Passwords of clients whose protocol has no SASL are those of the users of SCRAM and PLAIN, as they are now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ottla.broker.passwords import PASSWORD_BYTES_MAX, PasswordCheck
from ottla.metadata.image.image import MetadataImage
from ottla.model.scram_credential import ScramCredential
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.security.scram import SCRAM_SHA_256, SCRAM_SHA_512, credential_of
from ottla.settings.broker_settings import BrokerSettings

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_root="toor" user_both="plain";'


HERE = "10.0.0.1"


class CountingTasks(Tasks):
    """Counts what is done in threads, which is what costs."""

    done = 0

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.done += 1
        return await super().in_thread(function, *args, **kwargs)


@pytest.fixture
async def tasks() -> AsyncIterator[CountingTasks]:
    made = CountingTasks()
    yield made
    await made.close()


def image(**passwords: bytes) -> MetadataImage:
    users: dict[str, dict[int, ScramCredential]] = {
        name: {2: credential_of(SCRAM_SHA_512, password, b"salt" * 4, 4_096)} for name, password in passwords.items()
    }
    return MetadataImage("c", scram_credentials=users)


def check(tasks: Tasks, mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512") -> PasswordCheck:
    settings = BrokerSettings(
        {"sasl.enabled.mechanisms": mechanisms, "listener.name.redis.plain.sasl.jaas.config": JAAS}
    )
    return PasswordCheck(settings, "REDIS", SeededRng(1), tasks)


async def test_the_password_of_now_is_right_and_costs_once(tasks: CountingTasks) -> None:
    made, now = check(tasks), image(anna=b"pencil")
    for password, right in ((b"pencil", True), (b"pencil", True), (b"wrong", False), (b"", False), (b"pencil", True)):
        assert await made.is_right(lambda: now, "anna", password, HERE) is right
    assert tasks.done == 3  # a wrong one always costs: that says nothing of who has logged in
    changed = image(anna=b"paper")
    assert not await made.is_right(lambda: changed, "anna", b"pencil", HERE)
    assert await made.is_right(lambda: changed, "anna", b"paper", HERE)
    gone = image()
    assert not await made.is_right(lambda: gone, "anna", b"paper", HERE)
    assert tasks.done == 6  # also for a user that is not there, who costs as much


async def test_users_of_plain_and_those_of_both(tasks: CountingTasks) -> None:
    made, now = check(tasks), image(both=b"scram", anna=b"pencil")
    for user, password, right in (
        ("root", b"toor", True),
        ("root", b"tooor", False),
        ("both", b"plain", True),
        ("both", b"scram", True),
        ("both", b"pencil", False),
    ):
        assert await made.is_right(lambda: now, user, password, HERE) is right
    assert made.users(now) == ["anna", "both", "root"]


async def test_only_mechanisms_that_are_enabled_count(tasks: CountingTasks) -> None:
    made, now = check(tasks, "SCRAM-SHA-256"), image(anna=b"pencil")
    assert not await made.is_right(lambda: now, "anna", b"pencil", HERE)
    assert not await made.is_right(lambda: now, "root", b"toor", HERE)
    assert made.users(now) == []
    short = MetadataImage("c", scram_credentials={"anna": {1: credential_of(SCRAM_SHA_256, b"p", b"s" * 8, 4_096)}})
    assert await made.is_right(lambda: short, "anna", b"p", HERE)


async def test_many_who_guess_have_one_thread_and_long_passwords_none(tasks: CountingTasks) -> None:
    made, now = check(tasks), image(anna=b"pencil")
    at_once, most = 0, 0

    async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return credential_of(SCRAM_SHA_512, b"x", b"salt" * 4, 4_096)

    tasks.in_thread = in_thread  # type: ignore[method-assign]
    answers = await asyncio.gather(*(made.is_right(lambda: now, "anna", b"%d" % each, HERE) for each in range(50)))
    assert (any(answers), most) == (False, 1)
    tasks.in_thread = None  # type: ignore[method-assign, assignment]
    assert not await made.is_right(lambda: now, "anna", b"x" * (PASSWORD_BYTES_MAX + 1), HERE)


async def test_who_comes_from_another_address_does_not_wait_behind_all_who_guess(tasks: CountingTasks) -> None:
    made, now = check(tasks), image(anna=b"pencil")
    guesses = [asyncio.create_task(made.is_right(lambda: now, "anna", b"%d" % each, "10.6.6.6")) for each in range(50)]
    await asyncio.sleep(0)  # all are there
    assert await made.is_right(lambda: now, "anna", b"pencil", HERE)
    assert tasks.done <= 3
    assert not any(await asyncio.gather(*guesses))
