"""The end of a run: everything heals, and then all guarantees are checked.

heal --> all brokers serve, every ISR is whole --> producers stop, replicas are equal --> copiers have copied all
                                                   --> read by new consumers, and from the files of every replica
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.client.consuming.offsets import IsolationLevel
from ottla.native import decode_records, walk_batches
from ottla.simulation.anomalies import check
from ottla.simulation.history import History, Partition
from ottla.simulation.share_history import ShareHistory
from ottla.simulation.whole.broker import BrokerHost
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.load import COPIED, PARTITIONS, PLAIN, Auditor, Client, Reader, Seen
from ottla.storage.file_names import LOG_SUFFIX, STRAY_DIRECTORY_SUFFIX, parse_log_directory_name

HEAL_S: Final = 120.0
"""The maximum time until a healed cluster is in sync."""

BROKEN_HEAL_S: Final = 15.0
"""The same where a rule is broken already: what else is wrong is of less interest."""

LOOK_AGAIN_S: Final = 0.25

DECOMPRESSED_BYTES_MAX: Final = 1 << 30


class CommittedReader(Reader):
    """Reads what the copiers wrote, as far as it is committed."""

    topic = COPIED
    isolation = IsolationLevel.READ_COMMITTED


class NotHealedError(Exception):
    """The cluster did not recover in time."""


async def until(cluster: SimulatedCluster, what: str, holds: Callable[[], str]) -> None:
    """Wait until `holds` has nothing to say. Raises NotHealedError with what it says after the longest time."""
    begun_s = cluster.loop.time()
    while missing := holds():
        heal_s = BROKEN_HEAL_S if cluster.is_broken else HEAL_S
        if cluster.loop.time() >= begun_s + heal_s:
            raise NotHealedError(f"after {heal_s:g} s without faults {what}: {missing}")
        waiting: asyncio.Future[None] = cluster.loop.create_future()
        cluster.loop.in_world(LOOK_AGAIN_S, waiting.set_result, None)
        await waiting
    cluster.trace.tell(f"now {what}")


def not_whole(cluster: SimulatedCluster) -> str:
    """What a broker's metadata still lacks: a leader, or a replica in sync; empty if nothing."""
    for broker in cluster.brokers:
        image = broker.image
        if image is None:
            return f"broker {broker.node_id} does not serve"
        if len(image.active_brokers()) < len(cluster.brokers):
            return f"broker {broker.node_id} knows of {len(image.active_brokers())} active brokers"
        for topic in image.topics_by_name.values():
            for partition in topic.partitions:
                if partition.leader < 0 or len(partition.isr) < len(partition.replicas):
                    return f"{topic.name}-{partition.index}: leader {partition.leader}, ISR {partition.isr}"
                if partition.is_reassigned:
                    return f"{topic.name}-{partition.index} is still on its way"
    return ""


def not_equal(cluster: SimulatedCluster, topics: Sequence[str] | None) -> str:
    """Replicas of these topics, or of all, with different end offsets or uncommitted records; empty if none."""
    ends: dict[tuple[str, int], tuple[int, str]] = {}
    for broker in cluster.brokers:
        if broker.server is None:
            return f"broker {broker.node_id} does not serve"
        for partition in broker.server.replicas:
            topic, index = partition.topic_partition
            if topics is not None and topic not in topics:
                continue
            end = partition.log.log_end_offset
            known, where = ends.setdefault((topic, index), (end, f"broker {broker.node_id}"))
            if end != known or partition.high_watermark != end:
                committed = f"committed up to {partition.high_watermark}"
                return f"{topic}-{index}: {known} at {where}, {end} at broker {broker.node_id}, {committed}"
    return ""


def left_over(cluster: SimulatedCluster) -> str:
    """Files of replicas that a broker should not have any more; empty if none.

    What it had of a topic that was deleted while it did not run is set aside, and nobody removes it.
    """
    for broker in cluster.brokers:
        image = broker.image
        if image is None:
            return f"broker {broker.node_id} does not serve"
        for path in sorted(broker.disk.directory.iterdir()):
            if not path.is_dir() or path.name.endswith(STRAY_DIRECTORY_SUFFIX):
                continue
            place = parse_log_directory_name(path.name)
            known = None if place is None else image.partition(*place)
            if known is None or broker.node_id not in known.replicas:
                return f"broker {broker.node_id} has {path.name}"
    return ""


def records_on_disk(broker: BrokerHost, partition: Partition) -> list[tuple[int, str]]:
    """The records in a replica's files, without markers."""
    data = content_on_disk(broker, partition)
    _, size, error = walk_batches(data, check_crc=True)
    assert error is None, f"broker {broker.node_id}, {partition}: {error} at {size} of {len(data)} bytes"
    found = decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
    return [(offset, (value or b"").decode()) for offset, _, _, value, _ in found]


def content_on_disk(broker: BrokerHost, partition: Partition) -> bytes:
    """The batches of a replica, one after the other."""
    directory = Path(broker.disk.directory) / f"{partition[0]}-{partition[1]}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob(f"*{LOG_SUFFIX}")))


def holders(cluster: SimulatedCluster, partition: Partition) -> list[BrokerHost]:
    """The brokers that have a replica."""
    image = cluster.brokers[0].image
    known = None if image is None else image.partition(*partition)
    assert known is not None, f"{partition} is gone"
    return [broker for broker in cluster.brokers if broker.node_id in known.replicas]


async def end(
    cluster: SimulatedCluster,
    seen: Seen,
    senders: Sequence[Client],
    others: Sequence[Client],
    shares: ShareHistory | None = None,
) -> list[str]:
    """All violations after everything has healed; `shares` is that of a share group, if there is one.

    Raises NotHealedError.
    """
    await until(cluster, "every ISR is whole", lambda: not_whole(cluster))
    await _stopped(cluster, senders)
    await until(cluster, "replicas are equal", lambda: not_whole(cluster) or not_equal(cluster, (PLAIN,)))
    plain = [(PLAIN, number) for number in range(PARTITIONS)]
    final = {
        each: {broker.node_id: records_on_disk(broker, each) for broker in holders(cluster, each)} for each in plain
    }
    logs = {each: next(iter(replicas.values())) for each, replicas in final.items()}
    try:
        if shares is not None:
            await until(cluster, "a share group has done everything", lambda: ", ".join(shares.unfinished(logs)[:3]))
        await _read_all(cluster, seen, others, sum(len(next(iter(replicas.values()))) for replicas in final.values()))
    except NotHealedError as error:
        found = [] if shares is None else shares.check(logs)
        return [*map(str, check(_history(seen, final))), *found, str(error)]
    return [
        *map(str, check(_history(seen, final))),
        *([] if shares is None else shares.check(logs)),
        *_differing(cluster, [*plain, *((COPIED, number) for number in range(PARTITIONS))]),
        *_wrong_copies(seen, logs),
    ]


async def _read_all(cluster: SimulatedCluster, seen: Seen, others: Sequence[Client], wanted: int) -> None:
    """Have everything read and copied, and ask what groups committed. Raises NotHealedError."""
    copied, read = CommittedReader("committed", cluster, seen), Reader("again", cluster, seen)
    for reader in (copied, read):
        reader.start()
    await until(cluster, "everything is read", lambda: _lacks(seen, "again.", wanted))
    await until(cluster, "everything is copied", lambda: _lacks(seen, "committed.", wanted))
    await _stopped(cluster, (*others, copied, read))
    auditor = Auditor("auditor", cluster, seen)
    auditor.start()
    await until(cluster, "all replicas are equal", lambda: not_whole(cluster) or not_equal(cluster, None))
    await until(cluster, "no replica is left over", lambda: left_over(cluster))
    await _stopped(cluster, (auditor,))


async def _stopped(cluster: SimulatedCluster, clients: Sequence[Client]) -> None:
    for client in clients:
        client.is_stopping = True

    def running() -> str:
        return ", ".join(client.name for client in clients if not client.ended.done())

    await until(cluster, f"{len(clients)} clients have stopped", lambda: running() and f"{running()} go on")


def _lacks(seen: Seen, reader: str, wanted: int) -> str:
    count = sum(len(poll.records) for poll in seen.polls if poll.reader.startswith(reader))
    return "" if count >= wanted else f"{count} of {wanted} records"


def _history(seen: Seen, final: Mapping[Partition, Mapping[int, Sequence[tuple[int, str]]]]) -> History:
    return History(
        sends=[sending.send for sending in seen.sends],
        polls=[poll for poll in seen.polls if poll.partition[0] == PLAIN],
        commits=seen.commits,
        final=final,
    )


def _differing(cluster: SimulatedCluster, partitions: Sequence[Partition]) -> list[str]:
    """Partitions of which some replica has other bytes than the first one."""
    found = []
    for partition in partitions:
        first, *others = [content_on_disk(broker, partition) for broker in holders(cluster, partition)]
        found += [f"replicas have other bytes: {partition[0]}-{partition[1]}" for other in others if other != first]
    return found


def _wrong_copies(seen: Seen, final: Mapping[Partition, Sequence[tuple[int, str]]]) -> list[str]:
    """Each value that was written was copied once, in order."""
    found = []
    for (topic, index), records in final.items():
        wanted = [value for _, value in records]
        polls = [poll for poll in seen.polls if poll.reader == "committed.1" and poll.partition == (COPIED, index)]
        copied = [value for poll in polls for _, value in poll.records]
        if copied != wanted:
            pairs = enumerate(zip(copied, wanted, strict=False))
            at = next((place for place, (one, other) in pairs if one != other), min(len(copied), len(wanted)))
            found.append(
                f"wrong copies: {topic}-{index}: {len(copied)} of {len(wanted)}, and the first that is wrong at {at}: "
                f"{copied[at : at + 3]} instead of {wanted[at : at + 3]}"
            )
    return found
