import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ottla.cli.connection import run_until_done
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_waits_until_a_callback_that_runs_is_over(caplog: pytest.LogCaptureFixture) -> None:
    waited_for: list[asyncio.Future[str]] = []

    async def command() -> None:
        loop = asyncio.get_running_loop()
        waited_for.append(loop.create_future())

        def tell() -> None:
            signal.raise_signal(signal.SIGINT)
            waited_for[0].set_result("something")

        loop.call_soon(tell)
        await waited_for[0]
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR), pytest.raises(KeyboardInterrupt):
        run_until_done(command())
    assert waited_for[0].result() == "something"
    assert not caplog.records


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, CommandError)], ids=str
)
def test_what_was_begun_is_ended(number: signal.Signals, ending: type[BaseException]) -> None:
    ended = []

    async def command() -> None:
        try:
            signal.raise_signal(number)
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ending) as raised:
        run_until_done(command())
    assert ended == [number]
    if isinstance(raised.value, CommandError):
        assert raised.value.exit_code is ExitCode.TERMINATED


def test_a_second_interrupt_does_not_wait_for_what_was_begun() -> None:
    async def command() -> None:
        for _ in range(2):
            with suppress(asyncio.CancelledError):  # as one that cleans up for long
                signal.raise_signal(signal.SIGINT)
                await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_until_done(command())


def test_signals_do_afterwards_what_they_did_before() -> None:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in signals]

    async def command() -> str:
        return "done"

    assert run_until_done(command()) == "done"
    assert [signal.getsignal(number) for number in signals] == before


def test_who_does_not_listen_to_interrupts_is_not_made_to() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def command() -> object:
        return signal.getsignal(signal.SIGINT)

    assert run_until_done(command()) is signal.SIG_IGN
