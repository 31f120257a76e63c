"""A round: a broker that is used by everybody at once, then left alone, and what that left behind.

make topics -> everybody for some seconds, the broker stopped or killed meanwhile -> everybody comes to an end
            -> everything is read -> topics and groups are deleted -> files and connections are gone -> checker
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from ottla.simulation.anomaly import Violation
from races import group_requests as groups
from races import log_requests as logs
from races import topic_requests as topics
from races.checker import check
from races.group_member import MEMBER_GROUPS, GroupMember
from races.history import At, History, Outage, Read
from races.library_users import CONSUMERS, PRODUCERS, LibraryConsumer, LibraryUser, group_of
from races.raw_connection import RawConnection
from races.raw_user import RawUser
from races.remains import wait_for_remains
from races.session_reader import SessionReader
from races.stage import KEPT, LIVING, QUIET, TRIMMED, WILD, Stage
from races.topic_owner import TopicOwner
from tests.broker_process import BrokerProcess

RAW_USERS = 6
SESSION_READERS = 2
GROUP_MEMBERS = 3
READS_MAX = 20_000
"""Of one partition in the end, before it is said that they do not get on."""
FETCH_BYTES = 256 << 10
SETTLE_S = 60.0


class RoundKind(Enum):
    """What is done to the broker in a round."""

    CALM = "calm"
    RESTART = "restarted"
    KILL = "killed"


@dataclass(slots=True)
class RoundResult:
    """What a round showed."""

    number: int
    kind: RoundKind
    begun_at: float
    violations: list[Violation] = field(default_factory=list)
    history: History = field(default_factory=History)
    operations: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)
    """How long each part of the round took."""


async def run_round(
    broker: BrokerProcess, seed: int, number: int, kind: RoundKind, seconds: float, memory_mib: list[float]
) -> RoundResult:
    """One round. `memory_mib` are the figures of this process after earlier rounds; this one's is added to it."""
    stage = Stage(broker.port, seed, number)
    result = RoundResult(number, kind, stage.now(), history=stage.history)
    log_at = broker.log_path.stat().st_size
    phase = _Phases(stage, result.phases_s)
    owners = [
        *(TopicOwner(stage, topic, is_living=True) for topic in LIVING),
        *(TopicOwner(stage, topic, is_living=False) for topic in (*KEPT, *TRIMMED)),
    ]
    quiet = TopicOwner(stage, QUIET, is_living=False)
    await asyncio.gather(*(owner.make() for owner in (*owners, quiet)))
    phase.ends("make topics")
    producers = [make(stage, library) for library, make in PRODUCERS.items()]
    consumers = [make(stage, library) for library, make in CONSUMERS.items()]
    for worker in (*producers, *consumers):
        worker.start()
    everybody = [
        *(RawUser(stage, index).run() for index in range(RAW_USERS)),
        *(SessionReader(stage, index).run() for index in range(SESSION_READERS)),
        *(GroupMember(stage, index).run() for index in range(GROUP_MEMBERS)),
        *(owner.run() for owner in owners),
    ]
    tasks = [stage.spawn(work) for work in everybody]
    await _disturb(stage, broker, kind, seconds)
    for worker in (*producers, *consumers):
        worker.require_sound()
    if kind is not RoundKind.CALM:
        memory_mib.clear()
    stage.is_stopping = True
    phase.ends("race")
    await _all(stage, tasks)
    phase.ends("raw users end")
    await _stop(stage, producers, result.phases_s)
    phase.ends("producers end")
    await _read_everything(stage, consumers)
    phase.ends("read everything")
    await _stop(stage, consumers, result.phases_s)
    phase.ends("consumers end")
    await _all(stage, [asyncio.ensure_future(owner.unmake()) for owner in (*owners, quiet)])
    await _delete_the_rest(stage)
    phase.ends("delete everything")
    remains = await wait_for_remains(broker)
    memory_mib += remains.memory_mib
    remains.memory_mib = list(memory_mib)
    stage.history.remains = remains
    phase.ends("files and connections go")
    with broker.log_path.open() as log:
        log.seek(log_at)
        stage.history.log_lines = log.read().splitlines()
    stage.history.ended_at = stage.now()
    if stage.crashes:
        raise stage.crashes[0]
    result.violations = await asyncio.to_thread(check, stage.history)
    phase.ends("check")
    result.operations, result.errors = dict(stage.operations), dict(stage.errors)
    return result


class _Phases:
    """Notes how long each part took."""

    def __init__(self, stage: Stage, seconds: dict[str, float]) -> None:
        self._stage = stage
        self._seconds = seconds
        self._begun_at = stage.now()

    def ends(self, name: str) -> None:
        """One part is over, the next begins."""
        now = self._stage.now()
        self._seconds[name] = now - self._begun_at
        self._begun_at = now


async def _disturb(stage: Stage, broker: BrokerProcess, kind: RoundKind, seconds: float) -> None:
    end = stage.now() + seconds
    if kind is not RoundKind.CALM:
        times = sorted(stage.rng.uniform(0.2, 0.8) * seconds for _ in range(stage.rng.choice((1, 1, 2))))
        begun = stage.now()
        for at in times:
            await asyncio.sleep(max(0.0, begun + at - stage.now()))
            outage = Outage(stage.now(), is_kill=kind is RoundKind.KILL)
            stage.history.outages.append(outage)
            await asyncio.to_thread(broker.kill if outage.is_kill else broker.stop)
            await asyncio.to_thread(broker.start)
            outage.ended_at = stage.now()
    await asyncio.sleep(max(0.0, end - stage.now()))


async def _all(stage: Stage, work: Sequence[Awaitable[None]]) -> None:
    """Wait for all of them, and raise what one of them died of."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome


async def _stop(stage: Stage, workers: Sequence[LibraryUser], seconds: dict[str, float]) -> None:
    await asyncio.gather(*(asyncio.to_thread(_stop_one, stage, worker, seconds) for worker in workers))


def _stop_one(stage: Stage, worker: LibraryUser, seconds: dict[str, float]) -> None:
    begun_at = stage.now()
    try:
        worker.stop()
        seconds[f"{worker.name} ends"] = stage.now() - begun_at
    except TimeoutError as error:
        stage.history.stalls.append(f"{error}: {worker.where()}")


async def _read_everything(stage: Stage, consumers: Sequence[LibraryConsumer]) -> None:
    """Every record, commit and setting that is there, by raw requests; then let the libraries read the kept topics."""
    rng = Random(f"{stage.rng.random()}/final")
    connection = await RawConnection(stage, stage.name("final")).open()
    ends: dict[tuple[str, int], int] = {}
    for topic, life in list(stage.lives.items()):
        for partition in range(life.partition_count):
            end = await _read_partition(stage, rng, connection, topic, partition)
            if topic in KEPT:
                ends[topic, partition] = end
        await connection.ask(topics.describe_settings(stage, rng, topic))
        for group in (*groups.SIMPLE_GROUPS, *MEMBER_GROUPS):
            await connection.ask(groups.fetch_offsets(stage, rng, group, topic))
    connection.close()
    for consumer in consumers:
        consumer.ends = ends


async def _read_partition(stage: Stage, rng: Random, connection: RawConnection, topic: str, partition: int) -> int:
    """Read from the start of a log to its end; where that is."""
    await connection.ask(logs.list_offsets(stage, rng, topic, At.EARLIEST, partition))
    await connection.ask(logs.list_offsets(stage, rng, topic, At.LATEST, partition))
    earliest, latest = stage.history.looks[-2:]
    position = max(earliest.offset, 0)
    for _ in range(READS_MAX):
        if position >= latest.offset:
            return latest.offset
        reads: list[Read] = []
        ask = logs.fetch(
            stage,
            rng,
            topic,
            position,
            partition=partition,
            max_wait_ms=500,
            max_bytes=FETCH_BYTES,
            reads=reads,
            least_version=logs.ZSTD_FETCH_VERSION,
        )
        await connection.ask(ask)
        (read,) = reads
        if read.error:
            if topic in KEPT:
                stage.history.stalls.append(f"final reads of {topic}-{partition} at {position}: error {read.error}")
            return latest.offset
        if read.end < 0:
            stage.history.stalls.append(f"final reads of {topic}-{partition}: nothing at {position} of {latest.offset}")
            return latest.offset
        position = max(read.end, position)
    stage.history.stalls.append(f"final reads of {topic}-{partition}: at {position} of {latest.offset}")
    return latest.offset


async def _delete_the_rest(stage: Stage) -> None:
    rng = Random(0)
    connection = await RawConnection(stage, stage.name("last")).open()
    for topic in WILD:
        await connection.ask(topics.delete_topic(stage, rng, topic, None))
    for group in (*groups.SIMPLE_GROUPS, *MEMBER_GROUPS, *map(group_of, CONSUMERS)):
        await connection.ask(groups.delete_group(stage, rng, group))
    connection.close()
