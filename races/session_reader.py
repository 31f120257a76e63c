"""A consumer's fetch session with topics that are not there, or not there any more, beside one that is."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ottla.protocol.messages import fetch as f
from races.history import Exchange, Read, SessionTurn
from races.log_requests import pick_version, take_fetched
from races.raw_connection import Ask, RawConnection
from races.stage import LIVING, NEVER, QUIET, Stage
from races.topic_owner import AWAY_S

MAX_WAIT_MS = 500
UNKNOWN = {3, 100, 103}
TURNS_MAX = 60


class SessionReader:
    """One session after the other."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.rng = Random(f"{stage.rng.random()}/session-{number}")
        self.number = number

    async def run(self) -> None:
        """Until the round ends."""
        while not self.stage.is_stopping:
            connection = RawConnection(self.stage, self.stage.name(f"session-{self.number}"))
            try:
                await connection.open()
                await self._session(connection)
            except OSError:
                await asyncio.sleep(AWAY_S)
            connection.close()

    async def _session(self, connection: RawConnection) -> None:
        # By name: a session by ids has no topic whose id nobody knows.
        version = min(12, pick_version(f.FetchRequest, self.rng, 7))
        absent = self.rng.choice((*NEVER, *LIVING))
        wanted = [QUIET, absent]
        self.rng.shuffle(wanted)
        topics = tuple(
            f.FetchTopic(topic=topic, partitions=(f.FetchPartition(partition=0, partition_max_bytes=1 << 20),))
            for topic in wanted
        )
        session_id = epoch = 0
        positions: dict[str, int] = dict.fromkeys(wanted, 0)
        for _ in range(TURNS_MAX):
            if self.stage.is_stopping:
                return
            request = f.FetchRequest(
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=50 << 20,
                session_id=session_id,
                session_epoch=epoch,
                topics=topics,
            )
            turn = SessionTurn(
                f"{connection.log.name} v{version} of {'+'.join(wanted)}",
                self.stage.now(),
                float("inf"),
                MAX_WAIT_MS / 1000,
                has_news=epoch == 0,
            )
            before = dict(positions)

            def on_answer(response: Any, exchange: Exchange, turn: SessionTurn = turn) -> None:
                turn.answered_at = exchange.answered_at
                turn.has_news |= self._take(response, exchange, positions, turn.asked_at)
                self.stage.history.session_turns.append(turn)

            response = await connection.ask(Ask(request, version, on_answer, wait_s=MAX_WAIT_MS / 1000))
            if response.error_code or response.session_id == 0:
                return
            session_id, epoch = response.session_id, epoch + 1
            topics = tuple(
                f.FetchTopic(
                    topic=topic,
                    partitions=(
                        f.FetchPartition(partition=0, fetch_offset=positions[topic], partition_max_bytes=1 << 20),
                    ),
                )
                for topic in wanted
                if positions[topic] != before[topic]
            )

    def _take(self, response: Any, exchange: Exchange, positions: dict[str, int], asked_at: float) -> bool:
        """Note what was read; whether anything was new beyond topics that are not there."""
        if response.error_code:
            return True
        has_news = False
        for topic in response.responses:
            for told in topic.partitions:
                read = Read(topic.topic, 0, asked_at, fetch_offset=positions[topic.topic])
                take_fetched(read, told, exchange)
                self.stage.history.reads.append(read)
                if read.end >= 0:
                    positions[topic.topic] = read.end
                elif told.error_code == 1:
                    positions[topic.topic] = 0  # the topic was made again
                has_news |= told.error_code not in UNKNOWN
        return has_news
