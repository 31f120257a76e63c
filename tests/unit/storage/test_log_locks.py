"""Who waits for whom, and that nobody waits for ever."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.topic_partition import TopicPartition
from ottla.storage.log_locks import LogLocks

A, B, C = (TopicPartition(name, 0) for name in "abc")


async def test_one_name_is_held_by_one_at_a_time_in_the_order_of_coming():
    locks, said = LogLocks(), []

    async def work(number: int) -> None:
        async with locks.hold([A]):
            said.append(f"{number} begins")
            await asyncio.sleep(0)
            said.append(f"{number} ends")

    await asyncio.gather(*map(work, range(3)))
    assert said == [f"{number} {what}" for number in range(3) for what in ("begins", "ends")]
    assert not locks.held


async def test_others_are_not_kept_waiting():
    locks = LogLocks()
    async with locks.hold([A]), locks.hold([B]):
        assert set(locks.held) == {A, B}
    assert not locks.held


async def test_what_is_free_is_taken_in_the_same_turn():
    locks, turns = LogLocks(), []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    async with locks.hold([C, A, B]):
        assert turns == []


async def test_whoever_raises_lets_go():
    locks = LogLocks()
    with pytest.raises(RuntimeError):
        async with locks.hold([A, B]):
            raise RuntimeError
    assert not locks.held


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), st.integers(0, 6), st.booleans()), max_size=12),
    st.integers(0, 1000),
)
def test_nobody_shares_and_everybody_gets_on_whoever_is_cancelled(wanted: list[tuple[set[int], int, bool]], seed: int):
    async def run() -> None:
        locks, holders, finished = LogLocks(), dict.fromkeys(range(5), 0), 0

        async def work(names: set[int], turns: int) -> None:
            nonlocal finished
            async with locks.hold(TopicPartition("t", name) for name in names):
                try:
                    for name in names:
                        holders[name] += 1
                        assert holders[name] == 1
                    for _ in range(turns):
                        await asyncio.sleep(0)
                finally:
                    for name in names:
                        holders[name] -= 1
            finished += 1

        tasks = [asyncio.ensure_future(work(names, turns)) for names, turns, _ in wanted]
        chance = random.Random(seed)
        cancelled = [task for task, (_, _, is_cancelled) in zip(tasks, wanted, strict=True) if is_cancelled]
        for task in cancelled:
            for _ in range(chance.randrange(5)):
                await asyncio.sleep(0)
            task.cancel()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        assert finished == results.count(None)
        assert not locks.held

    asyncio.run(run())
