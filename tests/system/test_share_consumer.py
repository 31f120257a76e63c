"""Ottla's share consumer on running brokers: asyncio, blocking, and `ottla consume --share` (KIP-932, KIP-1222)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from ottla.cli.main import run as run_command
from ottla.client import AcknowledgeType, ClientOptions, Consumer, ConsumerOptions, ShareConsumer, SyncShareConsumer
from ottla.client.errors import BrokerError, ClientError, TopicNotFoundError
from ottla.model.topic_partition import TopicPartition
from tests.broker_process import BrokerProcess
from tests.system import share_consumer_run as run


@pytest.fixture
def name() -> str:
    return f"shared-{uuid4().hex[:8]}"


@pytest.mark.parametrize(
    "scenario",
    [run.implicit_acknowledgement, run.explicit_acknowledgement, run.shared_work],
    ids=lambda each: each.__name__,
)
async def test_what_a_share_consumer_is_relied_on_for(
    broker: BrokerProcess, name: str, scenario: Callable[[str, str], Awaitable[None]]
) -> None:
    await scenario(broker.bootstrap, name)


async def test_the_late_acknowledgement_of_an_expired_lock_is_refused(
    new_broker: Callable[..., BrokerProcess], name: str
) -> None:
    with new_broker(group_share_min_record_lock_duration_ms="1000") as broker:
        await run.expired_lock(broker.bootstrap, name, 1_000)


async def test_acknowledgements_are_reported_to_the_callback_and_one_that_raises_stops_nothing(
    broker: BrokerProcess, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await run.prepare(broker.bootstrap, name, partitions=2)
    told: list[tuple[TopicPartition, list[int], ClientError | None]] = []

    def on_acknowledged(where: TopicPartition, offsets: list[int], error: ClientError | None) -> None:
        told.append((where, offsets, error))
        raise ValueError("the program's own mistake")

    async with ShareConsumer(
        ClientOptions.of(broker.bootstrap), run.explicit(name), on_acknowledged=on_acknowledged
    ) as consumer:
        consumer.subscribe([name])
        await run.produce(broker.bootstrap, name, "a", "b")
        first, second = await run.one_poll(consumer)
        consumer.acknowledge(first)
        consumer.commit_async()
        consumer.acknowledge(second, AcknowledgeType.REJECT)
        await consumer.commit()
        await run.produce(broker.bootstrap, name, "c")
        assert await run.some(consumer, each=consumer.acknowledge) == ["c"]
    assert [offset for _, offsets, _ in told for offset in offsets] == [0, 1, 2]
    assert {(where, error) for where, _, error in told} == {(TopicPartition(name, 0), None)}
    assert "the callback on_acknowledged failed" in caplog.text


async def test_new_partitions_are_read_too(broker: BrokerProcess, name: str) -> None:
    await run.prepare(broker.bootstrap, name)
    async with ShareConsumer(ClientOptions.of(broker.bootstrap, metadata_max_age_ms=500), name) as consumer:
        consumer.subscribe([name])
        await run.produce(broker.bootstrap, name, "a")
        assert await run.some(consumer) == ["a"]
        await run.add_partitions(broker.bootstrap, name, 3)
        for _ in range(run.POLLS_MAX):
            await consumer.poll(timeout_ms=500)
            if len(consumer.assignment()) == 3:
                break
        assert len(consumer.assignment()) == 3


async def test_a_restarted_broker_delivers_again_what_was_not_acknowledged(
    new_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = new_broker().start()
    await run.prepare(broker.bootstrap, name)
    await run.produce(broker.bootstrap, name, "done", "lost")
    async with ShareConsumer(ClientOptions.of(broker.bootstrap), run.explicit(name)) as consumer:
        consumer.subscribe([name])
        done, lost = await run.one_poll(consumer)
        consumer.acknowledge(done)
        assert await consumer.commit() == {TopicPartition(name, 0): None}
        consumer.acknowledge(lost)
        broker.kill()
        [error] = (await consumer.commit()).values()
        assert isinstance(error, ClientError)
        broker.start()
        assert await run.some(consumer, each=consumer.acknowledge) == ["lost"]
        assert await consumer.commit() == {TopicPartition(name, 0): None}


async def test_a_group_of_another_type_is_refused_by_poll(broker: BrokerProcess, name: str) -> None:
    await run.prepare(broker.bootstrap, name)
    await run.produce(broker.bootstrap, name, "a")
    options = ClientOptions.of(broker.bootstrap)
    async with Consumer(options, ConsumerOptions(group_id=name)) as member, ShareConsumer(options, name) as consumer:
        member.subscribe([name])
        await member.poll(timeout_ms=0)
        consumer.subscribe([name])
        with pytest.raises(BrokerError, match=f"share group '{name}'"):
            await run.some(consumer)


def test_blocking_code_reads_acknowledges_and_closes(broker: BrokerProcess, name: str) -> None:
    asyncio.run(run.prepare(broker.bootstrap, name))
    asyncio.run(run.produce(broker.bootstrap, name, "a", "b", "c"))
    where = TopicPartition(name, 0)
    with SyncShareConsumer([broker.bootstrap], run.explicit(name)) as consumer:
        consumer.subscribe([name])
        first = next(iter(consumer))
        assert (first.value, consumer.assignment(), consumer.lock_timeout_ms) == (b"a", [where], 30_000)
        consumer.acknowledge(first)
        assert consumer.commit() == {where: None}
        [second] = consumer.poll(1)
        consumer.acknowledge(second, AcknowledgeType.REJECT)
        consumer.commit_async()
    consumer.close()
    with pytest.raises(ClientError, match="the share consumer is closed"):
        consumer.poll()
    with SyncShareConsumer(broker.bootstrap, name) as consumer:
        consumer.subscribe([name])
        for record in consumer:
            assert (record.value, record.offset) == (b"c", 2)
            break


def test_the_command_accepts_what_it_has_written(
    broker: BrokerProcess, name: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    asyncio.run(run.prepare(broker.bootstrap, name))
    asyncio.run(run.produce(broker.bootstrap, name, "a", "b", "c"))
    command = ["consume", "--bootstrap", broker.bootstrap, name, "--share", name]
    assert run_command([*command, "--count", "1", "--json"]) == 0
    line = json.loads(capfdbinary.readouterr().out)
    assert (line["value"], line["offset"], line["delivery_count"]) == ("a", 0, 1)
    assert run_command([*command, "--exit"]) == 0
    assert capfdbinary.readouterr().out == b"b\nc\n"
    assert run_command([*command, "--exit"]) == 0
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--group", "g"], b"--group is not used with --share: leave it out"),
        (["--from-beginning"], b"--from-beginning is not used with --share"),
        (["--partition", "0"], b"--partition is not used with --share"),
        (["--read-committed"], b"--read-committed is a setting of the group (share.isolation.level)"),
    ],
)
def test_the_command_refuses_what_a_share_group_decides(
    broker: BrokerProcess, options: list[str], says: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run_command(["consume", "--bootstrap", broker.bootstrap, "t", "--share", "s", *options]) == 2
    assert says in capfdbinary.readouterr().err


async def test_the_partitions_of_a_missing_topic_are_an_error(broker: BrokerProcess, name: str) -> None:
    async with ShareConsumer(ClientOptions.of(broker.bootstrap), name) as consumer:
        with pytest.raises(TopicNotFoundError):
            await consumer.partitions_of(name)
