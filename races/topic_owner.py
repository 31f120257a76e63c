"""Makes and deletes one topic, again and again, and knows its lives; nobody else does that to its topic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from ottla.model.error_code import ErrorCode
from races.history import At, Life
from races.log_requests import RawProducer, fetch, list_offsets, produce
from races.raw_connection import Ask, RawConnection
from races.stage import TRIMMED, Stage
from races.topic_requests import (
    ROLLING,
    alter_settings,
    create_partitions,
    create_topic,
    delete_topic,
    describe_settings,
    metadata_of,
)

AWAY_S = 0.2
STORM_CHANCE = 0.4
STORM_CONNECTIONS = 5
STORM_LOOK_UPS = 60
TRIMMED_SETTINGS = {"retention.bytes": "20000", "segment.ms": "200"}


class TopicOwner:
    """One topic. `is_living`: whether it is deleted and made again, or stays for the whole round."""

    def __init__(self, stage: Stage, topic: str, *, is_living: bool) -> None:
        self.stage = stage
        self.topic = topic
        self.is_living = is_living
        self.rng = Random(f"{stage.rng.random()}/{topic}")
        self._connection: RawConnection | None = None
        self._storm: list[RawConnection] = []
        self._life: Life | None = None

    async def make(self) -> None:
        """Create the topic and learn its id."""
        while not self._is_there:
            await self._try(self._ask_create)

    @property
    def _is_there(self) -> bool:
        return self._life is not None

    async def run(self) -> None:
        """Own it until the round ends; it is there then."""
        while not self.stage.is_stopping:
            await asyncio.sleep(self.rng.uniform(0.02, 1.2))
            if self.stage.is_stopping:
                break
            await self._try(self._change)
        await self.make()

    async def unmake(self) -> None:
        """Delete it for good."""
        while self._is_there:
            await self._try(lambda: self._replace(make_again=False))
        for connection in (self._connection, *self._storm):
            if connection is not None:
                connection.close()

    async def _try(self, step: Callable[[], Awaitable[None]]) -> None:
        """One step; when the connection goes with it, what became of the topic is asked of the next broker."""
        try:
            if self._connection is None or not self._connection.is_open:
                self._connection = await RawConnection(self.stage, self.stage.name(f"owner-{self.topic}")).open()
                await self._find_out()
            await step()
        except OSError:
            for connection in (self._connection, *self._storm):
                if connection is not None:
                    connection.close()
            self._storm.clear()
            await asyncio.sleep(AWAY_S)

    async def _ask(self, ask: Ask) -> None:
        assert self._connection is not None
        await self._connection.ask(ask)

    def _new_life(self) -> Life:
        is_trimmed = self.topic in TRIMMED
        count = 2 if not self.is_living else self.rng.randint(1, 3)
        return self.stage.new_life(self.topic, count, takes_records_away=is_trimmed)

    def _settings(self) -> dict[str, str]:
        return ROLLING | TRIMMED_SETTINGS if self.topic in TRIMMED else ROLLING

    async def _ask_create(self) -> None:
        if self._life is not None:
            return
        life = self._new_life()
        await self._ask(create_topic(self.stage, self.rng, self.topic, life, self._settings()))
        await self._settle(life)

    async def _settle(self, life: Life) -> None:
        """The topic was made, or not: take it for the one that is there."""
        if life.created_at > life.deleted_at:
            return
        if life.topic_id is None:
            await self._ask_id(life)
        self._life = self.stage.lives[self.topic] = life

    async def _ask_id(self, life: Life) -> None:
        assert self._connection is not None
        response = await self._connection.ask(metadata_of(self.topic))
        (told,) = response.topics
        if told.error_code == ErrorCode.NONE:
            life.topic_id = told.topic_id

    async def _change(self) -> None:
        if self._life is None:
            await self._ask_create()
            return
        chance = self.rng.random()
        if not self.is_living or chance < 0.3:
            await self._ask(alter_settings(self.stage, self.rng, self.topic))
            await self._ask(describe_settings(self.stage, self.rng, self.topic))
        elif chance < 0.45:
            await self._ask(create_partitions(self.stage, self.rng, self.topic, self.rng.randint(2, 5)))
        else:
            await self._replace(make_again=True)

    async def _replace(self, *, make_again: bool) -> None:
        """Delete it; make it again, at once behind the deletion, after its answer, or later."""
        life = self._life
        if life is None:  # the connection went with the answer to the deletion, and a new one said that it was done
            return
        assert self._connection is not None
        asks = [delete_topic(self.stage, self.rng, self.topic, life)]
        following: Life | None = None
        chance = self.rng.random()
        if make_again and chance < 0.5:
            following = self._new_life()
            asks.append(create_topic(self.stage, self.rng, self.topic, following, self._settings()))
            asks.append(describe_settings(self.stage, self.rng, self.topic))
        if make_again and self.rng.random() < STORM_CHANCE:
            await self._look_up_from_everywhere()
        self._connection.send(asks)
        if not await self._connection.settled(self.stage.patience_s + 30) or not self._connection.is_open:
            raise ConnectionError("what became of the topic is not known")
        self._gone(life)
        if following is not None:
            await self._settle(following)
        elif make_again and chance < 0.8:
            await self._ask_create()

    async def _look_up_from_everywhere(self) -> None:
        """Have many look-ups of old records wait when the deletion comes, with appends and reads behind them."""
        while len(self._storm) < STORM_CONNECTIONS:
            self._storm.append(await RawConnection(self.stage, self.stage.name(f"storm-{self.topic}")).open())
        for connection in self._storm:
            producer = RawProducer(self.stage.name("storm"))
            asks = [list_offsets(self.stage, self.rng, self.topic, At.TIME, 0) for _ in range(STORM_LOOK_UPS)]
            for _ in range(3):
                asks.append(produce(self.stage, self.rng, producer, self.topic, acks=1))
                asks.append(list_offsets(self.stage, self.rng, self.topic, At.TIME, 0))
                asks.append(fetch(self.stage, self.rng, self.topic, 0, partition=0, max_bytes=1 << 20))
            connection.send(asks)

    def _gone(self, life: Life) -> None:
        if life.deleted_at <= self.stage.now():
            self.stage.past.append(life)
            self.stage.lives.pop(self.topic, None)
            self._life = None

    async def _find_out(self) -> None:
        """After a connection was lost in the middle: which of the lives that may be there is."""
        open_lives = [
            life for life in self.stage.history.lives if life.topic == self.topic and life.deleted_at == float("inf")
        ]
        if not open_lives:
            return
        assert self._connection is not None
        response = await self._connection.ask(metadata_of(self.topic))
        (told,) = response.topics
        now = self.stage.now()
        self.stage.lives.pop(self.topic, None)
        self._life = None
        is_there = told.error_code == ErrorCode.NONE
        unknown = [life for life in open_lives if life.topic_id is None]
        for life in open_lives:
            is_this = is_there and (
                life.topic_id == told.topic_id
                or (life in unknown and not any(each.topic_id == told.topic_id for each in open_lives))
            )
            if not is_this:
                life.deleted_at = now
                self.stage.past.append(life)
                continue
            life.topic_id = told.topic_id
            life.created_at = min(life.created_at, now)
            life.partition_count = min(life.partition_count, len(told.partitions))
            self._life = self.stage.lives[self.topic] = life
