"""Each sender learns the fate of its own record."""

import asyncio

import pytest

from ottla.client.producing.delivery import BatchOutcome, Delivery, RecordMetadata
from ottla.model.topic_partition import TopicPartition

PLACE = TopicPartition("t", 1)


async def test_those_who_await_get_the_offset_of_their_record():
    outcome = BatchOutcome(PLACE)
    waiting = asyncio.gather(*(_wait(Delivery(outcome, index)) for index in range(3)))
    await asyncio.sleep(0)
    outcome.succeed(100, 5)
    assert await waiting == [RecordMetadata(PLACE, 100 + index, 5) for index in range(3)]


async def test_a_delivery_may_be_awaited_again_and_by_many():
    outcome = BatchOutcome(PLACE)
    delivery = Delivery(outcome, 0)
    both = asyncio.gather(_wait(delivery), _wait(delivery))
    await asyncio.sleep(0)
    outcome.succeed(1, -1)
    assert await both == [await delivery] * 2


async def test_giving_up_waiting_leaves_the_others_waiting():
    outcome = BatchOutcome(PLACE)
    impatient = asyncio.ensure_future(_wait(Delivery(outcome, 0)))
    patient = asyncio.ensure_future(_wait(Delivery(outcome, 0)))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    outcome.succeed(9, -1)
    assert (await patient).offset == 9


async def test_a_record_that_was_given_up_raises_why():
    outcome = BatchOutcome(PLACE)
    delivery = Delivery(outcome, 0)
    assert not delivery.done
    outcome.fail(OSError("why"))
    assert delivery.done
    assert isinstance(delivery.error, OSError)
    with pytest.raises(OSError, match="why"):
        await delivery


def test_a_callback_is_called_once_whenever_it_is_added():
    outcome = BatchOutcome(PLACE)
    called = []
    Delivery(outcome, 2).add_done_callback(lambda delivery: called.append(delivery.result().offset))
    assert called == []
    outcome.succeed(10, -1)
    Delivery(outcome, 3).add_done_callback(lambda delivery: called.append(delivery.result().offset))
    assert called == [12, 13]


def test_without_an_answer_the_offset_is_not_known():
    outcome = BatchOutcome(PLACE)
    outcome.succeed(-1, -1)
    assert Delivery(outcome, 4).result().offset == -1


def test_the_records_of_a_divided_batch_have_the_fates_of_its_parts():
    whole, first, second = (BatchOutcome(PLACE) for _ in range(3))
    whole.divide([(0, first), (2, second)])
    second.fail(OSError("too large"))
    assert not whole.done
    first.succeed(50, -1)
    assert whole.done
    assert [Delivery(whole, index).result().offset for index in range(2)] == [50, 51]
    assert isinstance(Delivery(whole, 2).error, OSError)
    assert Delivery(whole, 1).error is None


async def _wait(delivery: Delivery) -> RecordMetadata:
    return await delivery
