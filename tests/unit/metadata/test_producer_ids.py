import asyncio

import pytest

from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.tasks import Tasks


@pytest.fixture
async def tasks():
    tasks = Tasks()
    yield tasks
    await tasks.close()


async def turns():
    """Let everybody who can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


class Blocks:
    def __init__(self, size):
        self.size = size
        self.count = 0

    async def allocate(self):
        block = range(self.count * self.size, (self.count + 1) * self.size)
        self.count += 1
        await asyncio.sleep(0)
        return block


async def test_ids_are_taken_one_after_another_over_block_ends(tasks):
    ids = ProducerIdAllocator(Blocks(3).allocate, tasks)
    assert [await ids.next() for _ in range(8)] == list(range(8))


async def test_one_block_is_kept_in_hand(tasks):
    blocks = Blocks(4)
    ids = ProducerIdAllocator(blocks.allocate, tasks)
    assert blocks.count == 0
    for wanted in (2, 2, 2, 2, 3, 3):
        await ids.next()
        await turns()
        assert blocks.count == wanted


async def test_ids_go_on_for_at_least_a_block_while_none_is_to_be_had(tasks):
    blocks = Blocks(10)
    is_away = False

    async def allocate():
        if is_away:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return await blocks.allocate()

    ids = ProducerIdAllocator(allocate, tasks)
    ids.prepare()
    await turns()
    assert blocks.count == 1
    given = [await ids.next() for _ in range(7)]
    await turns()
    is_away = True
    given += [await ids.next() for _ in range(13)]
    assert given == list(range(20))
    with pytest.raises(ApiError):
        await ids.next()
    is_away = False
    assert await ids.next() == 20


async def test_many_who_wait_get_different_ids_from_as_few_blocks_as_needed(tasks):
    blocks = Blocks(10)
    ids = ProducerIdAllocator(blocks.allocate, tasks)
    given = await asyncio.gather(*(ids.next() for _ in range(25)))
    assert len(set(given)) == 25
    await turns()
    assert blocks.count in (3, 4)  # one may be in hand


async def test_a_block_that_cannot_be_had_can_be_asked_for_again(tasks):
    blocks = Blocks(1)
    failures = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)]

    async def allocate():
        if failures:
            raise failures.pop()
        return await blocks.allocate()

    ids = ProducerIdAllocator(allocate, tasks)
    with pytest.raises(ApiError):
        await ids.next()
    assert await ids.next() == 0


async def test_ids_are_never_given_twice_after_a_restart(start_broker, tasks):
    first = await start_broker()
    given = await ProducerIdAllocator(first.controller.allocate_producer_ids, tasks).next()
    first.stand_still()
    second = await start_broker()
    assert await ProducerIdAllocator(second.controller.allocate_producer_ids, tasks).next() > given
