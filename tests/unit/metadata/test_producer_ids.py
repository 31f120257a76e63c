import asyncio

import pytest

from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError


class Blocks:
    def __init__(self, size):
        self.size = size
        self.count = 0

    async def allocate(self):
        block = range(self.count * self.size, (self.count + 1) * self.size)
        self.count += 1
        await asyncio.sleep(0)
        return block


async def test_ids_are_taken_one_after_another_over_block_ends():
    ids = ProducerIdAllocator(Blocks(3).allocate)
    assert [await ids.next() for _ in range(8)] == list(range(8))


async def test_no_block_is_asked_for_before_it_is_needed():
    blocks = Blocks(2)
    ids = ProducerIdAllocator(blocks.allocate)
    assert blocks.count == 0
    await ids.next()
    await ids.next()
    assert blocks.count == 1


async def test_many_who_wait_get_different_ids_from_as_few_blocks_as_needed():
    blocks = Blocks(10)
    ids = ProducerIdAllocator(blocks.allocate)
    given = await asyncio.gather(*(ids.next() for _ in range(25)))
    assert len(set(given)) == 25
    assert blocks.count == 3


async def test_a_block_that_cannot_be_had_can_be_asked_for_again():
    blocks = Blocks(1)
    failures = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)]

    async def allocate():
        if failures:
            raise failures.pop()
        return await blocks.allocate()

    ids = ProducerIdAllocator(allocate)
    with pytest.raises(ApiError):
        await ids.next()
    assert await ids.next() == 0


async def test_ids_are_never_given_twice_after_a_restart(start_broker):
    first = await start_broker()
    given = await ProducerIdAllocator(first.controller.allocate_producer_ids).next()
    first.stand_still()
    second = await start_broker()
    assert await ProducerIdAllocator(second.controller.allocate_producer_ids).next() > given
