"""Connections between brokers: when they are made, who is believed, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from ottla.client.address import Address
from ottla.client.errors import BrokerUnreachableError, ConnectionLostError
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.broker_channels import CONTROLLER, FORWARD, GENERAL, HEARTBEAT, BrokerChannels, fetch_lane
from ottla.peers.cluster_secret import BrokerIdentity
from ottla.peers.errors import BrokerNotKnownError, NotProvenError
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.peers.fake_brokers import FakeBroker, FakeNetwork

CLUSTER = "wLAJf7yEQxOj3kE9gJKu0w"
SECRET = b"what the brokers of a cluster know"
HERE, THERE, ELSEWHERE = (Address("10.0.0.1", 9092), Address("10.0.0.2", 9092), Address("10.0.0.3", 9092))
REQUEST = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7)


def image(**epochs: int) -> MetadataImage:
    hosts = {1: HERE, 2: THERE, 3: ELSEWHERE}
    ids = {int(name.removeprefix("broker_")): epoch for name, epoch in epochs.items()}
    return MetadataImage(
        CLUSTER,
        brokers={
            each: BrokerImage(each, epoch, hosts[each].host, hosts[each].port, None) for each, epoch in ids.items()
        },
    )


class World:
    """Broker 1 and its channels; broker 2 as it answers."""

    def __init__(self, *, secret: bytes = SECRET, cluster: str = CLUSTER, answers_as: int = 2) -> None:
        self.timer = ManualTimer()
        self.tasks = Tasks()
        self.there = FakeBroker(BrokerIdentity(answers_as, cluster, secret), THERE)
        self.network = FakeNetwork({THERE: self.there})
        rng = SeededRng(1)
        self.channels = BrokerChannels(
            1,
            "PLAINTEXT",
            self.network,
            clock=self.timer.clock,
            rng=rng,
            timer=self.timer,
            tasks=self.tasks,
            authentication=BrokerAuthentication(lambda: BrokerIdentity(1, CLUSTER, SECRET), rng, self.tasks),
        )
        self.gone: list[tuple[int, int]] = []
        self.channels.on_image(image(broker_1=5, broker_2=6))

    def watch(self) -> None:
        self.channels.on_unreachable = lambda broker, epoch: self.gone.append((broker, epoch))

    async def ask(self, broker_id: int = 2) -> BrokerHeartbeatRequest:
        return await self.channels.request(broker_id, REQUEST, BrokerHeartbeatRequest, timeout_ms=10_000)

    async def settle(self) -> None:
        """Let all that can go on without time passing go on."""
        while any(not task.done() for task in asyncio.all_tasks() if task is not asyncio.current_task()):
            before = (self.network.attempts, len(self.there.requests), len(self.tasks))
            for _ in range(50):
                await asyncio.sleep(0)
            if before == (self.network.attempts, len(self.there.requests), len(self.tasks)):
                return


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.channels.close()
    await world.tasks.close()


async def test_a_connection_is_made_and_proved_once_and_then_used(world: World) -> None:
    answers = await asyncio.gather(*(world.ask() for _ in range(5)))
    assert answers == [REQUEST] * 5
    assert world.there.requests == [("1", REQUEST)] * 5
    assert world.network.attempts == 1
    assert world.there.connections[0].agreed == 1


async def test_each_lane_has_a_connection_of_its_own(world: World) -> None:
    for lane in (GENERAL, FORWARD, GENERAL):
        await world.channels.request(2, REQUEST, BrokerHeartbeatRequest, timeout_ms=1_000, lane=lane)
    assert world.network.attempts == 2


async def test_a_broker_that_is_not_in_the_image_is_not_looked_for(world: World) -> None:
    with pytest.raises(BrokerNotKnownError, match="broker 9 is not in the cluster"):
        await world.ask(9)


async def one_that_asks(world: World) -> str:
    try:
        with pytest.raises(NotProvenError) as caught:
            await world.ask()
        assert world.there.requests == []
        assert all(each.closed for each in world.there.connections)
        return str(caught.value)
    finally:
        world.channels.close()
        await world.tasks.close()


async def test_a_broker_that_does_not_know_the_secret_hears_nothing() -> None:
    assert "did not prove that it knows the password" in await one_that_asks(World(secret=b"another"))


async def test_a_broker_of_another_cluster_with_the_same_secret_hears_nothing() -> None:
    assert "it belongs to another cluster" in await one_that_asks(World(cluster="another"))


async def test_a_broker_with_another_number_than_the_one_that_was_meant_hears_nothing() -> None:
    assert "it means to reach another broker; this is broker 3" in await one_that_asks(World(answers_as=3))


async def test_what_a_broker_says_cannot_be_sent_back_to_itself() -> None:
    assert "this is broker 1" in await one_that_asks(World(answers_as=1))


async def test_a_broker_that_takes_any_proof_and_has_none_hears_nothing(world: World) -> None:
    world.there.forged = b"v=" + b"YQ=="
    with pytest.raises(NotProvenError, match="is not believed to be broker 2"):
        await world.ask()
    assert world.there.requests == []


async def test_after_a_refusal_the_next_attempt_waits_and_whoever_waits_shares_it(world: World) -> None:
    world.there.is_up = False
    with pytest.raises(BrokerUnreachableError, match="refused"):
        await world.ask()
    world.there.is_up = True
    asking = [asyncio.ensure_future(world.ask()) for _ in range(3)]
    await world.settle()
    assert world.network.attempts == 1
    world.timer.advance(1_000)
    assert await asyncio.gather(*asking) == [REQUEST] * 3
    assert world.network.attempts == 2


async def test_a_lost_connection_is_made_again_at_once(world: World) -> None:
    await world.ask()
    world.there.connections[0].close()
    await world.ask()
    assert world.network.attempts == 2


async def test_a_broker_that_left_or_was_started_anew_is_let_go_of(world: World) -> None:
    await world.ask()
    world.channels.on_image(image(broker_1=5, broker_2=6, broker_3=1))
    assert not world.there.connections[0].closed
    world.channels.on_image(image(broker_1=5, broker_2=8, broker_3=1))
    assert world.there.connections[0].closed
    await world.ask()
    world.channels.on_image(image(broker_1=5))
    assert world.there.connections[1].closed
    with pytest.raises(BrokerNotKnownError):
        await world.ask()


async def test_who_waits_for_a_connection_to_a_broker_that_leaves_is_told(world: World) -> None:
    world.there.is_up = False
    with pytest.raises(BrokerUnreachableError):
        await world.ask()
    asking = asyncio.ensure_future(world.ask())
    await world.settle()
    world.channels.on_image(image(broker_1=5))
    with pytest.raises(ConnectionLostError, match="the cluster has changed"):
        await asking
    world.timer.advance(1_000)
    await world.settle()
    assert world.network.attempts == 1


async def test_nobody_waits_for_a_controller_when_another_has_taken_over(world: World) -> None:
    before = image(broker_1=5, broker_2=6)
    world.channels.on_image(replace(before, controller_id=2))
    world.there.answer = None
    asking = [
        asyncio.ensure_future(world.channels.request(2, REQUEST, BrokerHeartbeatRequest, timeout_ms=10_000, lane=lane))
        for lane in (HEARTBEAT, FORWARD, CONTROLLER, GENERAL)
    ]
    await world.settle()
    world.channels.on_image(replace(before, controller_id=2, end_offset=1))
    assert len([each for each in world.there.connections if not each.closed]) == 4
    world.channels.on_image(replace(before, controller_id=1, end_offset=2))
    await world.settle()
    assert [each.done() for each in asking] == [True, True, True, False], "what else it is asked is still its to answer"
    for each in asking[:3]:
        with pytest.raises(ConnectionLostError):
            await each
    asking[3].cancel()


def fenced(known: MetadataImage, *broker_ids: int) -> MetadataImage:
    """The same with brokers that are fenced."""
    brokers = {each: replace(broker, fenced=each in broker_ids) for each, broker in known.brokers.items()}
    return replace(known, brokers=brokers)


@pytest.mark.parametrize("who", [1, 2])
async def test_nobody_waits_for_a_broker_that_is_fenced_nor_does_one_that_is(world: World, who: int) -> None:
    """The way between them may have been cut: over the connection that there was nothing comes for a long while."""
    known = image(broker_1=5, broker_2=6, broker_3=7)
    world.channels.on_image(known)
    world.there.answer = None
    asking = [
        asyncio.ensure_future(world.channels.request(2, REQUEST, BrokerHeartbeatRequest, timeout_ms=10_000, lane=lane))
        for lane in (GENERAL, fetch_lane(0), HEARTBEAT)
    ]
    await world.settle()
    world.channels.on_image(fenced(known, 3))
    assert not any(each.closed for each in world.there.connections)
    world.channels.on_image(fenced(known, 3, who))
    await world.settle()
    assert [each.done() for each in asking] == [True, True, False], "what says that it lives goes on"
    for each in asking[:2]:
        with pytest.raises(ConnectionLostError):
            await each
    asking[2].cancel()
    world.there.answer = lambda message: message
    assert await world.ask() == REQUEST
    world.channels.on_image(fenced(known, 3, who))
    world.channels.on_image(known)
    assert not world.there.connections[-1].closed, "another one is kept"


async def test_a_broker_whose_connection_ends_and_that_refuses_another_is_reported_once(world: World) -> None:
    world.watch()
    await world.ask()
    world.there.is_up = False
    world.there.connections[0].close()
    world.channels.check(2)
    await world.settle()
    assert world.gone == [(2, 6)]


async def test_a_broker_that_dies_while_it_is_looked_for_is_reported_as_well(world: World) -> None:
    """It takes another connection, ends it, and only then refuses the next."""
    world.watch()
    await world.ask()
    world.there.is_up, world.there.ends_at_once = False, 2
    world.there.connections[0].close()
    await world.settle()
    for _ in range(3):
        world.timer.advance(1_000)
        await world.settle()
    assert world.gone == [(2, 6)]


async def test_a_broker_that_takes_another_connection_is_not_reported(world: World) -> None:
    world.watch()
    await world.ask()
    world.there.connections[0].close()
    await world.settle()
    assert world.gone == []
    assert world.network.attempts == 2


async def test_nobody_is_looked_for_where_it_is_no_news(world: World) -> None:
    await world.ask()
    world.there.is_up = False
    world.there.connections[0].close()
    await world.settle()
    assert world.network.attempts == 1


async def test_a_closed_network_makes_no_connection(world: World) -> None:
    await world.ask()
    world.channels.close()
    assert world.there.connections[0].closed
    with pytest.raises(BrokerNotKnownError):
        await world.ask()


async def test_an_attempt_that_fails_as_nobody_expected_is_told_as_one_that_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: object) -> None:
        raise UnicodeError("a host name that no resolver takes")

    with monkeypatch.context() as patched:
        patched.setattr(world.network, "connect", connect)
        with pytest.raises(BrokerUnreachableError, match="no resolver takes"):
            await world.ask()
    asked = asyncio.ensure_future(world.ask())
    await world.settle()
    world.timer.advance(250)
    assert await asked == REQUEST
