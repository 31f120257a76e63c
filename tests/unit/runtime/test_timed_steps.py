import asyncio

import pytest

from ottla.runtime.tasks import Tasks
from ottla.runtime.timed_steps import TimedSteps
from tests.unit.network.peers import until


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


async def test_the_steps_are_timed_and_the_waits_are_not():
    clock, gate = Clock(), asyncio.Event()

    async def work():
        clock.now += 5
        await gate.wait()
        clock.now += 7
        return "done"

    steps = TimedSteps(work(), clock)

    async def run():
        return await steps

    waiting = asyncio.ensure_future(run())
    await asyncio.sleep(0)
    assert steps.elapsed_ns == 5
    clock.now += 1_000
    gate.set()
    assert await waiting == "done"
    assert steps.elapsed_ns == 12


async def test_what_it_raises_comes_out_and_what_is_thrown_comes_in():
    async def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await TimedSteps(fails(), Clock())

    async def catches():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "cleaned up"

    async def run():
        return await TimedSteps(catches(), Clock())

    task = asyncio.ensure_future(run())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "cleaned up"


async def test_a_coroutine_that_is_let_go_of_is_closed():
    closed = []

    async def waits():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    tasks = Tasks()

    async def run():
        await TimedSteps(waits(), Clock())

    tasks.spawn(run(), "test")
    await asyncio.sleep(0)
    await tasks.close()
    await until(lambda: closed)
