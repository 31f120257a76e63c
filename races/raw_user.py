"""A user of raw requests: bursts of many kinds and versions over one connection, which comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from ottla.protocol.frame import encode_request
from races import group_requests as groups
from races import log_requests as logs
from races import topic_requests as topics
from races.history import At
from races.raw_connection import CLIENT_ID, Ask, RawConnection
from races.stage import KEPT, LIVING, NEVER, TRIMMED, WILD, Stage
from races.topic_owner import AWAY_S

EVERYWHERE = (*LIVING, *LIVING, *KEPT, *TRIMMED, *WILD, *NEVER)
"""Topics to ask about: those that are deleted and made again twice as often."""

BURST_MAX = 60
VALUE_SIZES = (20, 20, 20, 20, 200, 200, 1_000, 5_000)
"""Bytes of the values of a run of appends."""

CUT_CHANCE = 0.06
LEAVE_CHANCE = 0.1
OFFSETS_BEHIND = 60
"""How far before the end a fetch begins at most."""


class RawUser:
    """One user, with one connection after the other."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.rng = Random(f"{stage.rng.random()}/raw-{number}")
        self.number = number
        self.producer = logs.RawProducer(stage.name("raw"))
        self.may_go_unanswered = number == 0
        """Whether to produce with acks=0: a broker that cannot tell of an error closes the connection."""
        self._then: list[tuple[str, int, int]] = []
        """Where to read next: topic, partition, and the offset behind an append that was acknowledged."""
        self._bursts: tuple[Callable[[], list[Ask]], ...] = (
            self._mixed,
            self._mixed,
            self._mixed,
            self._appends,
            self._look_ups,
            self._behind_an_append,
            self._wild,
            self._commits,
            self._waiting,
        )

    async def run(self) -> None:
        """Until the round ends."""
        connection: RawConnection | None = None
        while not self.stage.is_stopping:
            try:
                if connection is None or not connection.is_open:
                    # Of what the last connection left unanswered nothing is known: whoever goes on from there would
                    # have no order to keep.
                    self.producer = logs.RawProducer(self.stage.name("raw"))
                    connection = await RawConnection(self.stage, self.stage.name(f"raw-{self.number}")).open()
                    connection.log.may_be_closed = self.may_go_unanswered
                await self._turn(connection)
            except OSError:
                await asyncio.sleep(AWAY_S)
        if connection is not None:
            await connection.settled(self.stage.patience_s + 35)
            connection.close()

    async def _turn(self, connection: RawConnection) -> None:
        asks = self.rng.choice(self._bursts)()
        if self.producer.is_broken or self.rng.random() < 0.03:
            asks.insert(0, logs.init_producer_id(self.stage, self.rng, self.producer))
            connection.send(asks[:1])
            await connection.settled(self.stage.patience_s)
            self.producer.is_broken = False
            del asks[0]
        if self.rng.random() < CUT_CHANCE:
            size = sum(len(encode_request(0, CLIENT_ID, ask.message, ask.version)) for ask in asks)
            connection.send(asks, cut_behind=self.rng.randrange(size + 1))
            return
        connection.send(asks)
        if self.rng.random() < LEAVE_CHANCE:
            await asyncio.sleep(self.rng.uniform(0, 0.05))
            connection.close()
            return
        connection.send(self._at_the_ends())
        longest = max(ask.wait_s for ask in asks)
        await connection.settled(self.stage.patience_s + longest)
        if connection.is_open and self.rng.random() < 0.5:
            await asyncio.sleep(self.rng.uniform(0, 0.1))

    def _topic(self) -> str:
        return self.rng.choice(EVERYWHERE)

    def _mixed(self) -> list[Ask]:
        """Anything."""
        return [self._any() for _ in range(self.rng.randint(1, BURST_MAX // 3))]

    def _any(self) -> Ask:
        stage, rng, topic = self.stage, self.rng, self._topic()
        group = rng.choice(groups.SIMPLE_GROUPS)
        chance = rng.random()
        if chance < 0.3:
            acks = rng.choice((-1, -1, 1, 0 if self.may_go_unanswered else 1))
            return logs.produce(stage, rng, self.producer, topic, acks)
        if chance < 0.55:
            return logs.fetch(stage, rng, topic, self._offset(topic), max_wait_ms=rng.choice((0, 0, 100, 500)))
        if chance < 0.7:
            return logs.list_offsets(stage, rng, topic, rng.choice(tuple(At)))
        if chance < 0.73 and topic in TRIMMED + LIVING:
            deletion = logs.delete_records(stage, rng, topic)
            if deletion is not None:
                return deletion
        if chance < 0.8:
            make = rng.choice((groups.commit_offsets, groups.fetch_offsets, groups.fetch_offsets))
            return make(stage, rng, group, topic)
        if chance < 0.82:
            return groups.delete_offsets(stage, rng, group, topic)
        if chance < 0.86:
            about = rng.choice((groups.find_coordinator, groups.describe_group, groups.list_groups))
            return about(stage, rng, group)
        rest = (
            topics.metadata,
            topics.describe_topic,
            topics.describe_settings,
            topics.describe_log_dirs,
            logs.offset_for_leader_epoch,
            logs.describe_producers,
        )
        return rng.choice(rest)(stage, rng, topic)

    def _offset(self, topic: str) -> int:
        """Near the end as far as it is known, or at the beginning."""
        if self.rng.random() < 0.2:
            return 0
        known = [each.end for each in self.stage.history.appends[-200:] if each.topic == topic and each.offset >= 0]
        return max(0, (known[-1] if known else 0) - self.rng.randrange(OFFSETS_BEHIND))

    def _appends(self) -> list[Ask]:
        """Appends to one topic, most of them small, with something else among them now and then: they come in runs, and
        end anywhere in the buffers that they are received into.
        """
        stage, rng, topic = self.stage, self.rng, self.rng.choice(LIVING + KEPT)
        asks: list[Ask] = []
        for _ in range(rng.choice((1, 2, 3, 8, BURST_MAX))):
            if rng.random() < 0.1:
                asks.append(rng.choice((topics.metadata, logs.describe_producers))(stage, rng, topic))
            else:
                acks, size = rng.choice((-1, -1, -1, 1)), rng.choice(VALUE_SIZES)
                asks.append(logs.produce(stage, rng, self.producer, topic, acks, value_bytes=size))
        return asks

    def _look_ups(self) -> list[Ask]:
        """Many look-ups of old records in the same topic."""
        topic = self._topic()
        kinds = (At.TIME, At.TIME, At.TIME, At.TIME, At.MAX_TIMESTAMP, At.EARLIEST, At.LATEST)
        return [logs.list_offsets(self.stage, self.rng, topic, self.rng.choice(kinds)) for _ in range(BURST_MAX)]

    def _behind_an_append(self) -> list[Ask]:
        """Reads behind an append, whose answer is not waited for, and again at its end."""
        stage, rng, topic = self.stage, self.rng, self.rng.choice(LIVING + KEPT)
        append = logs.produce(stage, rng, self.producer, topic, acks=1)
        append.on_answer = self._read_on(topic, append)
        return [append, logs.list_offsets(stage, rng, topic, At.LATEST), logs.fetch(stage, rng, topic, 0)]

    def _read_on(self, topic: str, ask: Ask) -> Callable[[object, object], None]:
        inner, appended = ask.on_answer, self.stage.history.appends[-1]

        def on_answer(response: object, exchange: object) -> None:
            assert inner is not None
            inner(response, exchange)  # type: ignore[arg-type]
            self._then.append((topic, appended.partition, appended.end if appended.is_acknowledged else -1))

        return on_answer

    def _at_the_ends(self) -> list[Ask]:
        """At the end of what was just appended there is nothing yet, which is no error."""
        then, self._then = self._then, []
        asks: list[Ask] = []
        for topic, partition, offset in then:
            if offset >= 0:
                asks.append(logs.fetch(self.stage, self.rng, topic, offset, partition=partition))
                asks.append(logs.list_offsets(self.stage, self.rng, topic, At.LATEST, partition))
        return asks

    def _wild(self) -> list[Ask]:
        """Make, fill, read and delete a topic that others make and delete as well, in one go."""
        stage, rng, topic = self.stage, self.rng, self.rng.choice(WILD)
        asks = [
            topics.create_topic(stage, rng, topic, None, topics.ROLLING),
            *(logs.produce(stage, rng, self.producer, topic, rng.choice((-1, 1))) for _ in range(rng.randrange(6))),
            *(logs.list_offsets(stage, rng, topic, At.TIME) for _ in range(rng.randrange(20))),
            *(logs.fetch(stage, rng, topic, rng.randrange(20), max_wait_ms=300) for _ in range(rng.randrange(6))),
            topics.delete_topic(stage, rng, topic, None),
            topics.create_partitions(stage, rng, topic, rng.randint(2, 4)),
        ]
        if rng.random() < 0.5:
            rng.shuffle(asks)
        return asks

    def _commits(self) -> list[Ask]:
        """Commits of one group, looked at in between; now and then the group is deleted."""
        stage, rng = self.stage, self.rng
        group = rng.choice(groups.SIMPLE_GROUPS)
        asks: list[Ask] = []
        for _ in range(rng.randint(1, 10)):
            topic = rng.choice(LIVING + KEPT)
            asks.append(groups.commit_offsets(stage, rng, group, topic))
            asks.append(groups.fetch_offsets(stage, rng, group, topic))
        if rng.random() < 0.1:
            asks.append(groups.delete_group(stage, rng, group))
        return asks

    def _waiting(self) -> list[Ask]:
        """Fetches that wait at the end of a log, which may be deleted meanwhile, with others behind them."""
        stage, rng, topic = self.stage, self.rng, self.rng.choice(LIVING)
        wait_ms = rng.choice((200, 1000, 3000))
        known = [each.end for each in stage.history.appends[-300:] if each.topic == topic and each.offset >= 0]
        offset = known[-1] if known else 0
        asks = [logs.fetch(stage, rng, topic, offset, max_wait_ms=wait_ms) for _ in range(rng.randint(1, 3))]
        return [*asks, topics.metadata(stage, rng, topic), logs.list_offsets(stage, rng, topic, At.LATEST)]
