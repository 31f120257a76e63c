"""Fetches of one partition, read by the kernel or by the general codec: served the same, answered byte for byte."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ottla.broker.fetch import DivergingEpoch, FetchLimits, FetchService, FetchTarget, PartitionRead
from ottla.broker.look_ups import LookUps
from ottla.gateways.kafka import api_01_fetch
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS, Principal
from ottla.model.topic_partition import TopicPartition
from ottla.native import SingleFetchRequest
from ottla.network.task_gate import TaskGate
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_request, decode_response, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.purgatory import DelayedOperation
from ottla.runtime.tasks import Tasks
from ottla.storage.log import Log
from ottla.storage.log_read_result import LogReadResult

pytestmark = pytest.mark.slow

TOPIC, TOPIC_ID, NOBODYS_ID = "t", UUID(int=7), UUID(int=8)
ANOTHER_BROKER = 2
WHOLE = api_01_fetch.API
GENERAL = replace(WHOLE, handle_single=None)
"""The API without the kernel's part of it."""
VERSIONS = range(WHOLE.min_version, WHOLE.max_version + 1)


class Buffer:
    """Counts who holds the buffer of a request."""

    held = 0

    def retain(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


def read_part(part: Any) -> bytes:
    return os.pread(part.fd, part.size, part.position) if type(part) is FileSlice else bytes(part)


class Slot:
    """What was answered to one request."""

    is_void = False
    frame: bytes | None = None

    def send(self, parts: Any) -> None:
        assert self.frame is None, "a request is answered once"
        self.frame = b"".join(map(read_part, parts))


PARTITION: Any = SimpleNamespace(
    topic_partition=TopicPartition(TOPIC, 0),
    topic_id=TOPIC_ID,
    log=SimpleNamespace(look_up=lambda _: None, look_up_aborted=lambda *_: None),
    high_watermark=1 << 62,
)


class Told(FetchService):
    """Finds partitions as ever, notes what is to be read, and gives what it is told to."""

    def __init__(self, replicas: ReplicaManager, read: PartitionRead, **rules: Any) -> None:
        super().__init__(replicas, None, 1 << 20, **rules)  # type: ignore[arg-type]
        self.read = read
        self.asked: list[tuple[list[FetchTarget], FetchLimits]] = []

    def fetch(
        self,
        targets: Sequence[FetchTarget],
        limits: FetchLimits,
        on_fetched: Callable[[list[PartitionRead]], None],
        reader: Principal | None = None,
    ) -> DelayedOperation | None:
        assert reader is ANONYMOUS
        self.asked.append(([replace(each) for each in targets], limits))
        on_fetched([self.read])
        return None


class Nobody:
    """Nobody may read `t`."""

    version = 0

    def allows_on_any(self, *_: object) -> bool:
        return False

    def allows(self, *_: object) -> bool:
        return False


RULES: dict[str, dict[str, Any]] = {"none": {}, "authorizer": {"authorizer": Nobody()}}


class ServedGateway:
    """A broker whose partition `t-0` gives what it is told to, though the image has another broker for its leader."""

    def __init__(self, api: Api, read: PartitionRead, **rules: Any) -> None:
        replicas = ReplicaManager()
        replicas.add(PARTITION)
        topic = TopicImage(TOPIC, TOPIC_ID, (PartitionImage(0, ANOTHER_BROKER, 5, (ANOTHER_BROKER,), (2,), 0),))
        node = SimpleNamespace(node_id=ANOTHER_BROKER, host="there", port=9092, rack="r")
        self.fetches = Told(replicas, read, **rules)
        broker: Any = SimpleNamespace(
            task_gate=TaskGate(),
            look_ups=LookUps(),
            fetches=self.fetches,
            image=MetadataImage("cluster", topics_by_name={TOPIC: topic}, topics_by_id={TOPIC_ID: topic}),
            tasks=Tasks("test"),
            cluster=SimpleNamespace(node_id=1, node=lambda node_id, _: node if node_id == ANOTHER_BROKER else None),
        )
        gateway = KafkaGateway(broker, ApiTable.of([api]), None)  # type: ignore[arg-type]
        self.said: list[str] = []
        connection: Any = SimpleNamespace(
            peer="test", is_muted=False, is_closed=False, fail=self._say, complain=self.said.append
        )
        self.connection = gateway.connect(connection)

    def _say(self, reason: str, slot: object) -> None:
        del slot
        self.said.append(reason)

    def send(self, frame: bytes) -> Slot:
        slot = Slot()
        self.connection.on_frame(memoryview(bytearray(frame)), Buffer(), slot)  # type: ignore[arg-type]
        return slot


def frame_of(
    version: int, *, is_there: bool = True, index: int = 0, wanted: FetchPartition | None = None, **fields: Any
) -> bytes:
    """A request of a partition that is there, or not."""
    topic_id, name = (TOPIC_ID, TOPIC) if is_there else (NOBODYS_ID, "nobody")
    named = {"topic_id": topic_id} if version >= 13 else {"topic": name}
    partition = replace(wanted or FetchPartition(partition_max_bytes=1 << 20), partition=index)
    topics = (FetchTopic(**named, partitions=(partition,)),)
    return encode_request(77, "me", FetchRequest(topics=topics, **fields), version)[4:]


int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(-1, 2**63 - 1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("records") / "file"
    path.write_bytes(bytes(range(256)) * 4)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def read_of(fd: int, error: ErrorCode, numbers: tuple[int, int, int], sizes: Sequence[int] | None) -> PartitionRead:
    """What a partition gives, with so many bytes in each slice of a file."""
    high_watermark, last_stable_offset, log_start_offset = numbers
    found = PartitionRead(error, high_watermark, last_stable_offset, log_start_offset)
    if sizes is not None:
        slices = tuple(FileSlice(fd, place, size, None) for place, size in enumerate(sizes))
        found.records, found.total_bytes = LogReadResult(slices, sum(sizes)), sum(sizes)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_read_the_same_and_answer_with_the_same_bytes(
    version: int, file: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    taken: list[str] = []

    def noted(*arguments: Any) -> None:
        taken.append("single")
        api_01_fetch.handle_single(*arguments)

    apis = (replace(WHOLE, handle_single=noted), GENERAL)

    @given(
        st.just(ErrorCode.NONE) | st.sampled_from(list(ErrorCode)),
        st.tuples(offsets, offsets, offsets),
        st.none() | st.lists(st.integers(0, 500), max_size=3),
        st.booleans(),
        st.lists(st.tuples(offsets, offsets), max_size=2),
        st.none() | st.tuples(int32, offsets),
        st.tuples(st.booleans(), st.sampled_from([0, 1]), st.sampled_from(list(RULES))),
        st.tuples(int32, int32, int32, int32, int32, int64),
    )
    def check(
        error: ErrorCode,
        numbers: tuple[int, int, int],
        sizes: list[int] | None,
        committed: bool,
        aborted: list[tuple[int, int]],
        diverging: tuple[int, int] | None,
        place: tuple[bool, int, str],
        asked: tuple[int, int, int, int, int, int],
    ) -> None:
        is_there, index, rules = place
        wait, least, most, partition_most, epoch, offset = asked
        wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=partition_most)
        if version >= 12:
            wanted = replace(wanted, current_leader_epoch=epoch, last_fetched_epoch=epoch)
        frame = frame_of(
            version,
            is_there=is_there,
            index=index,
            wanted=wanted,
            isolation_level=int(committed),
            max_wait_ms=wait,
            min_bytes=least,
            max_bytes=most,
        )
        assert isinstance(decode_request(frame), SingleFetchRequest)
        outcomes = []
        for api in apis:
            taken.clear()
            read = read_of(file, error, numbers, sizes)
            read.aborted = aborted if committed else None
            read.diverging_epoch = None if diverging is None else DivergingEpoch(*diverging)
            gateway = ServedGateway(api, read, **RULES[rules])
            slot = gateway.send(frame)
            assert bool(taken) == (api is not GENERAL)
            outcomes.append((slot.frame, gateway.said, gateway.fetches.asked))
        assert outcomes[0] == outcomes[1]
        assert outcomes[0][0] is not None

    check()


def test_an_answer_that_cannot_be_made_closes_the_connection(file: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    gateway = ServedGateway(WHOLE, read_of(file, ErrorCode.NONE, (1 << 63, 0, 0), None))
    assert gateway.send(frame_of(11)).frame is None
    assert gateway.said == ["a request failed inside the broker"]


def test_requests_of_a_client_that_has_a_quota_go_the_general_way_where_they_are_counted(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = ServedGateway(WHOLE, read_of(file, ErrorCode.NONE, (0, 0, 0), None))
    served: list[Any] = []
    has_quota = True
    quotas: Any = SimpleNamespace(binds=lambda *_: has_quota)
    monkeypatch.setattr("ottla.gateways.kafka.gateway.serve_charged", lambda *request: served.append(request))
    gateway.connection.gateway.quotas = quotas
    gateway.send(frame_of(11))
    assert (len(served), len(gateway.fetches.asked)) == (1, 0)
    has_quota = False
    gateway.send(frame_of(11))
    assert (len(served), len(gateway.fetches.asked)) == (1, 1), "a quota of another client changes nothing"


class Client:
    """Fetches from partitions with real logs, by a connection of its own."""

    def __init__(self, gateway: Any) -> None:
        gateway.image, gateway.cluster = MetadataImage(""), SimpleNamespace(node_id=1, node=lambda *_: None)
        self.gateway = KafkaGateway(gateway, ApiTable.of([WHOLE]), gateway.fetch_sessions)
        self.failures: list[str] = []
        peer: Any = SimpleNamespace(
            peer="test", is_muted=False, is_closed=False, fail=lambda reason, _slot: self.failures.append(reason)
        )
        self.connection = self.gateway.connect(peer)

    def fetch(self, offset: int, **fields: Any) -> Slot:
        wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
        fields = {"max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 100_000, **fields}
        slot = Slot()
        frame = memoryview(frame_of(11, wanted=wanted, **fields))
        assert isinstance(decode_request(frame), SingleFetchRequest)
        self.connection.on_frame(frame, Buffer(), slot)  # type: ignore[arg-type]
        return slot


def told(slot: Slot) -> tuple[int, int, int]:
    """Error, high watermark and bytes of records."""
    assert slot.frame is not None
    answer: Any = decode_response(ApiKey.FETCH, 11, slot.frame[4:])[1]
    [topic] = answer.responses
    [part] = topic.partitions
    return part.error_code, part.high_watermark, len(part.records or b"")


@pytest.fixture
def client(log_gateway: Any) -> Client:
    return Client(log_gateway)


async def test_a_fetch_that_waits_is_answered_when_there_is_enough(log_gateway: Any, client: Client) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 1)
    one = partition.log.size
    slot = client.fetch(1, min_bytes=one + 1)
    for appended in (1, 2):
        assert slot.frame is None
        assert len(client.connection.waiting_fetches) == 1
        await log_gateway.append(partition, 1)
        log_gateway.fetch_purgatory.check_and_complete(partition.topic_partition)
        assert (slot.frame is None) == (appended == 1)
    assert told(slot) == (0, 3, 2 * one)
    assert (client.connection.waiting_fetches, log_gateway.fetch_purgatory.delayed_count) == (set(), 0)


async def test_a_fetch_that_waits_gets_what_there_is_when_its_client_sends_nothing_more(
    log_gateway: Any, client: Client
) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 1)
    waiting = client.fetch(1)
    assert waiting.frame is None
    client.connection.on_end_of_input()
    assert told(waiting) == (0, 1, 0)
    assert told(client.fetch(1)) == (0, 1, 0)
    assert client.connection.waiting_fetches == set()


async def test_a_fetch_that_waits_is_gone_with_its_connection(log_gateway: Any, client: Client) -> None:
    partition = await log_gateway.partition()
    waiting = client.fetch(0)
    client.connection.on_close()
    await log_gateway.append(partition, 1)
    log_gateway.fetch_purgatory.check_and_complete(partition.topic_partition)
    assert (waiting.frame, log_gateway.fetch_purgatory.delayed_count) == (None, 0)


async def test_no_more_fetches_of_one_connection_wait_than_the_limit(log_gateway: Any, client: Client) -> None:
    await log_gateway.partition()
    slots = [client.fetch(0) for _ in range(api_01_fetch.WAITING_FETCHES_MAX + 1)]
    assert [slot.frame is None for slot in slots] == [True] * api_01_fetch.WAITING_FETCHES_MAX + [False]
    client.connection.on_close()


async def test_an_offset_that_is_not_there_is_answered_at_once(log_gateway: Any, client: Client) -> None:
    await log_gateway.append(await log_gateway.partition(), 2)
    assert told(client.fetch(7))[0] == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Old records are not at hand, and reading waits until this is set."""
    disk_is_done = Event()
    monkeypatch.setattr(Log, "look_up", lambda _log, offset: None if offset else disk_is_done.wait)
    yield disk_is_done
    disk_is_done.set()


async def until_nothing_is_looked_up(log_gateway: Any, client: Client) -> None:
    async with asyncio.timeout(60):
        while log_gateway.tasks:  # noqa: ASYNC110 (nothing says when a task is gone)
            await asyncio.sleep(0)
    assert client.gateway.broker.look_ups.count == 0


async def test_who_waits_for_the_disk_keeps_nobody_else_waiting(
    log_gateway: Any, client: Client, slow_disk: Event
) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 1)
    await log_gateway.append(partition, 1)
    client.gateway.broker.look_ups.count_max = 1
    old, new, beyond_the_limit = client.fetch(0), client.fetch(1), client.fetch(0)
    assert (old.frame, client.gateway.broker.look_ups.count) == (None, 1)
    assert told(new) == (0, 2, partition.log.size // 2)
    assert told(beyond_the_limit) == (0, 2, partition.log.size)
    slow_disk.set()
    await until_nothing_is_looked_up(log_gateway, client)
    assert told(old) == (0, 2, partition.log.size)


async def test_a_fetch_that_fails_after_it_waited_for_the_disk_closes_its_connection(
    log_gateway: Any,
    client: Client,
    slow_disk: Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    await log_gateway.append(await log_gateway.partition(), 1)

    def broken(*_arguments: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(FetchService, "fetch", broken)
    client.fetch(0)
    slow_disk.set()
    await until_nothing_is_looked_up(log_gateway, client)
    assert client.failures == ["a request failed inside the broker"]
