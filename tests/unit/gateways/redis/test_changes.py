"""How many changes INFO reports (`rdb_changes_since_last_save`): as many as Redis for the same commands."""

from __future__ import annotations

import asyncio

from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory


async def told(script: list[str]) -> list[int]:
    """By how much each command raises the number, behind four entries and a group."""
    server = StreamsInMemory(b"s")
    session = server.session()
    for command in [*(f"XADD s {number}-0 f v" for number in range(1, 5)), "XGROUP CREATE s g 0"]:
        await server.run(session, *command.encode().split())
    counts = []
    for command in script:
        before = server.keyspace.changes
        assert not (await server.run(session, *command.encode().split())).startswith(b"-")
        counts.append(server.keyspace.changes - before)
    return counts


def test_changes_of_groups_are_counted_as_redis_does() -> None:
    script = {
        "XGROUP CREATECONSUMER s g alice": 1,
        "XGROUP CREATECONSUMER s g alice ": 0,
        "XREADGROUP GROUP g alice COUNT 2 STREAMS s >": 1,
        "XREADGROUP GROUP g alice STREAMS s 0": 0,
        "XREADGROUP GROUP g alice STREAMS s 9000": 0,
        "XREADGROUP GROUP g bob STREAMS s 0": 1,
        "XREADGROUP GROUP g carol NOACK STREAMS s >": 2,
        "XACK s g 1-0": 1,
        "XACK s g 1-0 ": 0,
        "XGROUP DELCONSUMER s g alice": 1,
        "XGROUP DELCONSUMER s g alice ": 0,
    }
    assert asyncio.run(told(list(script))) == list(script.values())
