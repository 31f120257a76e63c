import pytest

from ottla.groups.streams.configured_topology import Status
from ottla.groups.streams.topic_configuration import TASKS_MAX, PartitionCountOf, configure
from ottla.groups.streams.topology import SUBTOPOLOGIES_MAX, topology_of
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.coordinator_records.streams_group import StreamsGroupTopologyValue, Subtopology, TopicInfo
from ottla.protocol.messages import streams_group_heartbeat as heartbeat


def topology(*subtopologies: Subtopology) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(epoch=1, subtopologies=subtopologies)


def counts(**of: int) -> PartitionCountOf:
    """These topics there are."""
    return lambda name: of.get(name)


def test_a_chain_is_decided_from_its_end_to_its_beginning_whatever_the_order():
    length = SUBTOPOLOGIES_MAX
    links = [
        Subtopology(
            subtopology_id=str(index),
            source_topics=("orders",) if index == 0 else (),
            repartition_source_topics=(TopicInfo(f"link-{index}"),) if index else (),
            repartition_sink_topics=(f"link-{index + 1}",) if index < length - 1 else (),
        )
        for index in range(length)
    ]
    for order in (links, links[::-1]):
        configured = configure(topology(*order), counts(orders=3))
        assert {each.task_count for each in configured.subtopologies.values()} == {3}
        assert [topic.partition_count for topic in configured.topics_to_create] == [3] * (length - 1)


def test_the_topics_that_are_missing_are_named_up_to_a_number():
    names = ("t0", "t1", "t2", "t3", "t4")
    problem = configure(topology(Subtopology("0", source_topics=names)), counts()).problem
    assert problem is not None
    assert problem.status is Status.MISSING_SOURCE_TOPICS
    assert problem.detail == "Source topics t0, t1, t2 and 2 additional topics are missing."


def test_a_changelog_has_as_many_partitions_as_its_subtopology_has_tasks():
    subtopology = Subtopology(
        "0", source_topics=("orders", "people"), state_changelog_topics=(TopicInfo("store"), TopicInfo("people"))
    )
    configured = configure(topology(subtopology), counts(orders=5, people=2))
    (made,) = configured.topics_to_create
    assert (made.name, made.partition_count, made.replication_factor) == ("store", 5, -1)
    assert configured.subtopologies["0"].changelog_topics["people"].partition_count == 2, (
        "a source topic stays as it is"
    )


def test_too_many_tasks_are_refused():
    with pytest.raises(ApiError) as refused:
        configure(topology(Subtopology("0", source_topics=("orders",))), counts(orders=TASKS_MAX + 1))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    "subtopologies",
    [
        tuple(heartbeat.Subtopology(str(index)) for index in range(SUBTOPOLOGIES_MAX + 1)),
        (heartbeat.Subtopology("0"), heartbeat.Subtopology("0")),
        (heartbeat.Subtopology("0" * 2_000),),
        (heartbeat.Subtopology("0", state_changelog_topics=(heartbeat.TopicInfo("store", 3),)),),
        (heartbeat.Subtopology("0", repartition_source_topics=(heartbeat.TopicInfo("by-word", -3),)),),
        (heartbeat.Subtopology("0", copartition_groups=(heartbeat.CopartitionGroup(source_topics=(0,)),)),),
        (heartbeat.Subtopology("0", ("a",), copartition_groups=(heartbeat.CopartitionGroup(source_topics=(-1,)),)),),
        (heartbeat.Subtopology("0", source_topics=("x" * 2_000,)),),
    ],
    ids=["many", "twice", "long id", "changelog", "negative", "no topic", "index below", "large"],
)
def test_a_topology_that_cannot_be_kept_is_refused(subtopologies: tuple[heartbeat.Subtopology, ...]):
    with pytest.raises(ApiError) as refused:
        topology_of(heartbeat.Topology(1, subtopologies), record_bytes_max=1_500)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_topology_is_kept_as_it_was_sent():
    sent = heartbeat.Topology(
        3,
        (
            heartbeat.Subtopology(
                "0",
                source_topics=("orders",),
                state_changelog_topics=(heartbeat.TopicInfo("store", 0, 2, (heartbeat.KeyValue("a", "b"),)),),
                repartition_sink_topics=("by-word",),
                repartition_source_topics=(heartbeat.TopicInfo("by-word", 4),),
                copartition_groups=(heartbeat.CopartitionGroup((0,), (), (0,)),),
            ),
        ),
    )
    kept = topology_of(sent, record_bytes_max=10_000)
    assert kept.epoch == 3
    assert StreamsGroupTopologyValue.decode(0, kept.encode(0)) == kept
    (subtopology,) = kept.subtopologies
    assert subtopology.state_changelog_topics[0].topic_configs[0].value == "b"
    assert subtopology.copartition_groups[0].repartition_source_topics == (0,)
