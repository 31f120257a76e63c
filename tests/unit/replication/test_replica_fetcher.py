"""What a follower does with an answer that comes when what it asked for is over."""

import asyncio
import logging
from pathlib import Path

import pytest

from ottla.client.errors import BrokerUnreachableError
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from ottla.replication.partition import ACKS_LEADER
from ottla.replication.replica_fetcher import ReplicaFetcher, Truncation
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.outage_log import OutageLog
from tests.unit.replication.replicas import LIMITS, TOPIC_ID, Broker, cluster, until


class Leader:
    """Notes what it is asked, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[FetchRequest] = []
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.failures: list[Exception] = []
        """What the next requests end with, in place of an answer; the last one first."""

    async def fetch(self, leader_id: int, number: int, request: FetchRequest, timeout_ms: int) -> FetchResponse:
        del leader_id, number, timeout_ms
        self.asked.append(request)
        if self.failures:
            raise self.failures.pop()
        data = PartitionData(partition_index=0, high_watermark=0, records=memoryview(await self._answers.get()))
        return FetchResponse(session_id=1, responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(data,)),))

    def answer(self, records: bytes) -> None:
        self._answers.put_nowait(records)

    async def offset(self, count: int) -> int:
        """From where the request with this number fetches."""
        await until(lambda: len(self.asked) >= count)
        return self.asked[count - 1].topics[0].partitions[0].fetch_offset


def fetcher_of(follower: Broker, leader: Leader) -> ReplicaFetcher:
    return ReplicaFetcher(
        1,
        0,
        leader.fetch,
        lambda: ReplicaState(follower.broker_id, follower.broker_epoch),
        LIMITS,
        Truncation(follower.logs.truncate_log, follower.logs.restart_log),
        follower.own_quota,
        timer=follower.timer,
        tasks=follower.tasks,
        throttled=LogThrottle(logging.getLogger(__name__), follower.clock),
        outage=OutageLog(logging.getLogger(__name__), follower.clock),
    )


async def test_a_replica_that_was_dropped_and_made_anew_takes_no_answer_to_the_one_before(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as made:
        follower, leader = made.brokers[2], Leader()
        await follower.fetchers.close()
        await made.leader.append(b"first", count=3, acks=ACKS_LEADER)
        first = made.leader.contents
        await made.leader.append(b"second", acks=ACKS_LEADER)
        second = made.leader.contents[len(first) :]
        fetcher = fetcher_of(follower, leader)
        fetcher.add(follower.partition)
        follower.tasks.spawn(fetcher.run(), "fetching")
        assert await leader.offset(1) == 0
        leader.answer(first)
        assert await leader.offset(2) == 3
        # It was moved away and back while the leader waited for records.
        fetcher.remove(follower.partition)
        await follower.begin_anew()
        fetcher.add(follower.partition)
        leader.answer(second)
        assert await leader.offset(3) == 0
        assert follower.end_offset == 0
        leader.answer(first + second)
        assert await leader.offset(4) == 4
        assert follower.contents == made.leader.contents


async def test_a_fetch_that_fails_as_nobody_expected_is_tried_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as made:
        follower, leader = made.brokers[2], Leader()
        await follower.fetchers.close()
        await made.leader.append(b"first", count=3, acks=ACKS_LEADER)
        leader.failures = [RuntimeError("nobody thought of this")]
        fetcher = fetcher_of(follower, leader)
        fetcher.add(follower.partition)
        follower.tasks.spawn(fetcher.run(), "fetching")
        assert await leader.offset(2) == 0
        leader.answer(made.leader.contents)
        assert await leader.offset(3) == 3


async def test_a_leader_that_does_not_answer_is_told_when_that_begins_and_when_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt of each follower had a line."""
    caplog.set_level(logging.INFO, __name__)
    async with cluster(tmp_path, 2) as made:
        follower, leader = made.brokers[2], Leader()
        await follower.fetchers.close()
        await made.leader.append(b"first", count=3, acks=ACKS_LEADER)
        leader.failures = [BrokerUnreachableError("no answer")] * 4
        fetcher = fetcher_of(follower, leader)
        fetcher.add(follower.partition)
        follower.tasks.spawn(fetcher.run(), "fetching")
        leader.answer(made.leader.contents)
        assert await leader.offset(6) == 3
    assert [each.split(",")[0] for each in caplog.messages if "fetch" in each] == [
        "cannot fetch from broker 1",
        "fetching from broker 1 again",
    ]
