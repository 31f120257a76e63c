"""A command that waits says so, and one with a limit ends wherever it waits."""

import asyncio

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.waiting import NOTICE_MS, saying_what_is_waited_for
from ottla.client.errors import BrokerUnreachableError, broker_error
from ottla.client.io.troubles import Troubles
from ottla.model.error_code import ErrorCode
from ottla.runtime.clock import ManualClock


class Io:
    """Time goes on while somebody pauses."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    async def pause(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)
        for _ in range(3):
            await asyncio.sleep(0)


async def wait_for_ever(io: Io, troubles: Troubles, limit_ms: int) -> None:
    async with saying_what_is_waited_for(troubles, io, limit_ms):  # type: ignore[arg-type]
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BrokerUnreachableError("cannot reach a:1"), ExitCode.UNREACHABLE),
        (broker_error(ErrorCode.LEADER_NOT_AVAILABLE, "cannot reach a:1"), ExitCode.FAILED),
    ],
    ids=["no broker", "no leader"],
)
async def test_a_wait_that_nothing_ends_is_ended_by_the_limit(
    capsys: pytest.CaptureFixture[str], error: Exception, code: ExitCode
) -> None:
    io = Io()
    troubles = Troubles(io.clock)
    troubles.note("broker 1", error)
    with pytest.raises(CommandError, match=r"gave up after 5 s: .*cannot reach a:1") as raised:
        await wait_for_ever(io, troubles, 5_000)
    assert raised.value.exit_code is code
    assert capsys.readouterr().err == f"ottla: waiting: {error}\n"


async def test_whoever_is_interrupted_as_well_is_interrupted() -> None:
    io = Io()
    troubles = Troubles(io.clock)
    inside = asyncio.current_task()
    assert inside is not None
    troubles.note("broker 1", BrokerUnreachableError("cannot reach a:1"))

    class Signalled(Io):
        async def pause(self, delay_ms: int) -> None:
            await super().pause(delay_ms)
            if io.clock.monotonic_ms() >= 5_000:
                inside.cancel()

    io = Signalled()
    io.clock = troubles._clock  # type: ignore[assignment]
    with pytest.raises(asyncio.CancelledError):
        await wait_for_ever(io, troubles, 5_000)
    inside.uncancel()


async def test_what_is_over_soon_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    io = Io()
    troubles = Troubles(io.clock)
    async with saying_what_is_waited_for(troubles, io, NOTICE_MS):  # type: ignore[arg-type]
        troubles.note("broker 1", BrokerUnreachableError("cannot reach a:1"))
        await asyncio.sleep(0)
        troubles.over("broker 1")
        for _ in range(100):
            await asyncio.sleep(0)
    assert capsys.readouterr().err == ""
