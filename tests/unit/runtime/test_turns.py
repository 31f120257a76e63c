import asyncio

from ottla.runtime.turns import ITEMS_PER_TURN, Pace, in_turns


def test_the_last_item_of_a_turn_is_said_to_be_enough():
    pace = Pace(3)
    assert [pace.is_enough() for _ in range(7)] == [False, False, True, False, False, True, False]


async def test_others_get_on_between_parts_and_few_items_are_one_part():
    done: list[str] = []
    items = list(range(ITEMS_PER_TURN + 1))
    asyncio.get_running_loop().call_soon(done.append, "others")
    sizes = [(len(some), len(done)) async for some in in_turns(items)]
    assert sizes == [(ITEMS_PER_TURN, 0), (1, 1)]
    assert [some async for some in in_turns([1, 2])] == [[1, 2]]
    assert [some async for some in in_turns([])] == []
