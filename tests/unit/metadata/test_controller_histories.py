"""Random histories of a cluster as its controller sees it: whatever comes, every partition stays sound."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.controller.leader_election import ElectionType
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.controller.reassignment import Reassignment
from ottla.metadata.image.image import MetadataImage, PartitionImage
from ottla.model.errors import ApiError
from ottla.runtime.tasks import Tasks
from tests.unit.metadata.several_brokers import SeveralBrokers
from tests.unit.metadata.test_partition_leadership import assert_sound

BROKERS = (1, 2, 3, 4)
PARTITIONS = ((1, 2, 3), (2, 3, 4), (4,), (3, 1))
MIN_ISR = 2

ids = st.sampled_from(BROKERS)
happenings = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["beat", "silent", "start", "end", "gone", "stop", "lost disk", "crash", "move"]), ids
        ),
        st.tuples(st.just("isr"), st.integers(0, len(PARTITIONS) - 1), st.lists(ids, unique=True)),
        st.tuples(
            st.just("reassign"),
            st.integers(0, len(PARTITIONS) - 1),
            st.none() | st.lists(ids, unique=True, min_size=1),
        ),
        st.tuples(st.just("elect"), st.sampled_from(ElectionType)),
    ),
    max_size=40,
)


@given(happenings, st.booleans())
def test_whatever_happens_every_partition_stays_sound(happenings, flush):
    asyncio.run(happen(happenings, flush=flush))


async def happen(happenings: Sequence[tuple], *, flush: bool) -> None:
    tasks = Tasks()
    cluster = SeveralBrokers(tasks, {"min.insync.replicas": str(MIN_ISR)})
    for broker_id in BROKERS:
        await cluster.session(broker_id, flush=flush, directories=(f"d{broker_id}.0",))
    await cluster.take_over(cluster.controller)
    for broker_id in BROKERS:
        await cluster.heartbeat(broker_id)
    await cluster.topic("a", *PARTITIONS)
    disks = dict.fromkeys(BROKERS, 0)
    for what, *which in happenings:
        before = cluster.image
        try:
            await step(cluster, disks, what, which, flush=flush)
        except ApiError:
            """It was refused: then nothing changed, which is looked at below."""
        while running := list(tasks._tasks):
            await asyncio.wait(running)
        assert_image_is_sound(cluster.image)
        assert_image_follows(before, cluster.image)
    await everybody_is_back(cluster)
    assert_image_is_sound(cluster.image)
    await tasks.close()


async def step(cluster: SeveralBrokers, disks: dict[int, int], what: str, which: list, *, flush: bool) -> None:
    controller = cluster.controller
    match what, *which:
        case "isr", index, members:
            await propose(cluster, index, members)
        case "reassign", index, replicas:
            await controller.alter_reassignments([Reassignment("a", index, replicas)])
        case "elect", election:
            await controller.elect_leaders(election, None)
        case "beat", broker_id:
            await cluster.heartbeat(broker_id)
        case "gone", broker_id:
            await controller.broker_unreachable(broker_id, cluster.epochs[broker_id])
        case "stop", broker_id:
            await cluster.heartbeat(broker_id, want_shutdown=True)
        case "silent", broker_id:
            cluster.timer.advance(5_000)
            await cluster.heartbeat(broker_id)
        case "move", _:
            controller.resign()
            await cluster.take_over(cluster.new_controller())
        case _, broker_id if broker_id != 1:  # the session of the controller's own broker ends with the controller
            await end_or_begin(cluster, disks, what, broker_id, flush=flush)


async def propose(cluster: SeveralBrokers, index: int, members: list[int]) -> None:
    partition = cluster.partition("a", index)
    if partition.leader == -1:
        return
    isr = tuple((each, cluster.epochs[each]) for each in dict.fromkeys((partition.leader, *members)))
    topic_id = cluster.image.topic("a").topic_id
    proposal = PartitionProposal(topic_id, index, partition.leader_epoch, partition.partition_epoch, isr)
    await cluster.controller.alter_partition(partition.leader, cluster.epochs[partition.leader], [proposal])


async def end_or_begin(
    cluster: SeveralBrokers, disks: dict[int, int], what: str, broker_id: int, *, flush: bool
) -> None:
    epoch = cluster.epochs[broker_id]
    disks[broker_id] += what == "lost disk"
    if what == "end":
        cluster.store._sessions.pop(broker_id, None)
    else:
        clean = {"previous_epoch": epoch, "clean_since": epoch} if what == "start" else {}
        await cluster.session(broker_id, flush=flush, directories=(f"d{broker_id}.{disks[broker_id]}",), **clean)
    await cluster.controller.brokers_changed()


async def everybody_is_back(cluster: SeveralBrokers) -> None:
    """All run and are heard: whoever may lead does, and what may lose records for a leader gets one when asked."""
    for broker_id in BROKERS:
        if all(live.broker_id != broker_id for live in await cluster.store.live_brokers()):
            await cluster.session(broker_id, flush=cluster.image.brokers[1].flush)
    await cluster.controller.brokers_changed()
    for _ in range(3):
        for broker_id in BROKERS:
            if cluster.image.brokers[broker_id].fenced:
                await cluster.heartbeat(broker_id)
    for partition in cluster.image.topic("a").partitions:
        eligible = partition.isr or partition.elr or partition.last_known_leader != -1
        assert (partition.leader != -1) == bool(eligible) or not cluster.image.active_brokers() >= set(BROKERS)
    await cluster.controller.elect_leaders(ElectionType.UNCLEAN, None)
    for partition in cluster.image.topic("a").partitions:
        assert partition.leader != -1 or not cluster.image.active_brokers() & set(partition.replicas)


def assert_image_is_sound(image: MetadataImage) -> None:
    active = image.active_brokers()
    for partition in image.topic("a").partitions:
        assert_sound(partition.state, active, MIN_ISR)
        for member in partition.isr:
            assert not image.brokers[member].fenced, partition


def assert_image_follows(before: MetadataImage, after: MetadataImage) -> None:
    for old, new in zip(before.topic("a").partitions, after.topic("a").partitions, strict=True):
        if old.state == new.state:
            continue
        assert new.partition_epoch > old.partition_epoch
        assert new.leader_epoch >= old.leader_epoch
        if (new.leader, new.leader_epoch) != (old.leader, old.leader_epoch):
            assert new.leader_epoch > old.leader_epoch


def test_the_histories_would_show_a_partition_that_is_not_sound():
    broken = PartitionImage(0, 1, 0, (1, 2), (2,), 0)
    for state in (broken.state, broken.state._replace(leader=2, isr=(2,), elr=(2,))):
        try:
            assert_sound(state, {1, 2}, 2)
        except AssertionError:
            continue
        raise AssertionError(f"{state} passed for sound")
