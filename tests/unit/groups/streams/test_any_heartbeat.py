"""Whatever a stranger sends, a heartbeat has one answer, and what is left behind can be loaded again."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.streams.exchange import StreamsHeartbeat
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.unit.metadata.images import image_of, topic_record

pytestmark = pytest.mark.slow

IMAGES = (
    image_of(topic_record("a", 1, 2), topic_record("b", 2, 3)),
    image_of(topic_record("a", 1, 4), topic_record("c", 3, 4)),
)
NAMES = st.sampled_from(["a", "b", "c", "d", ""])
SOURCES = st.lists(st.sampled_from(["a", "a", "a", "b", "d"]), max_size=2).map(tuple)
SINKS = st.lists(st.sampled_from(["r", "s", "a"]), max_size=2).map(tuple)
NUMBERS = st.sampled_from([-(2**15), -1, 0, 1, 2, 4, 2**15 - 1])
COUNTS = st.sampled_from([0, 0, 0, 0, 2, 4, -1])
TOPICS = st.lists(st.builds(TopicInfo, st.sampled_from(["r", "s", "a"]), COUNTS, NUMBERS), max_size=2).map(tuple)
INDEXES = st.lists(st.sampled_from([0, 0, 0, 1, 7, -1]), max_size=2).map(tuple)
COPARTITIONS = st.lists(st.builds(CopartitionGroup, INDEXES, INDEXES, INDEXES), max_size=2).map(tuple)
SUBTOPOLOGIES = st.builds(
    Subtopology, st.sampled_from(["0", "1", ""]), SOURCES, st.just(()), TOPICS, SINKS, TOPICS, COPARTITIONS
)
TOPOLOGIES = st.builds(Topology, NUMBERS, st.lists(SUBTOPOLOGIES, max_size=3).map(tuple))
TASKS = st.lists(st.builds(TaskIds, st.sampled_from(["0", "1", "9"]), INDEXES), max_size=2).map(tuple)
OWNED = st.none() | st.just(()) | TASKS
REQUESTS = st.builds(
    StreamsGroupHeartbeatRequest,
    group_id=st.just("app"),
    member_id=st.sampled_from(["m", "n", ""]),
    member_epoch=st.sampled_from([0, 0, 0, 1, 2, 3, -1, -2, 2**31 - 1, -(2**31)]),
    endpoint_information_epoch=NUMBERS,
    rack_id=st.none() | NAMES,
    rebalance_timeout_ms=st.sampled_from([1_000, 0, -1, -7]),
    topology=st.none() | TOPOLOGIES,
    active_tasks=OWNED,
    standby_tasks=OWNED,
    warmup_tasks=st.sampled_from([None, (), ()]),
    process_id=st.none() | st.sampled_from(["p", "q"]),
    user_endpoint=st.none() | st.builds(Endpoint, NAMES, st.just(1)),
    client_tags=st.none() | st.lists(st.builds(KeyValue, NAMES, NAMES), max_size=2).map(tuple),
    shutdown_application=st.booleans(),
)
JOINS = st.builds(
    StreamsGroupHeartbeatRequest,
    group_id=st.just("app"),
    member_id=st.sampled_from(["m", "n"]),
    rebalance_timeout_ms=st.just(1_000),
    topology=TOPOLOGIES,
    active_tasks=st.just(()),
    standby_tasks=st.just(()),
    warmup_tasks=st.just(()),
    process_id=st.sampled_from(["p", "q"]),
    user_endpoint=st.none() | st.just(Endpoint("h", 1)),
)
STEPS = st.tuples(JOINS | REQUESTS, st.sampled_from(IMAGES))


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_any_heartbeats_have_one_answer_each_and_leave_what_can_be_loaded(steps: list[tuple[Any, Any]]):
    config = GroupConfig(streams=StreamsConfig(num_standby_replicas=1, initial_rebalance_delay_ms=0))
    now = [IMAGES[0]]
    shard = GroupShard(config, DeletedTopics(lambda name: None), lambda: now[0])
    shard.handle_loaded(0)
    log = []
    for index, (request, image) in enumerate(steps):
        now[0] = image
        answers: list[Any] = []
        said = StreamsHeartbeat(request, "client", "/10.0.0.1")
        outcome = shard.handle_streams_heartbeat(index * 2_000, said, answers.append)
        for record in outcome.records:
            log.append(shard.encode(record))
            shard.replay(record)
        for waiter, answer in outcome.answers:
            waiter(answer)
        (answer,) = answers
        if answer.response is not None:
            answer.response.encode(0)
            assert not answer.error
    loaded = GroupShard(config, DeletedTopics(lambda name: None), lambda: now[0])
    for key, value in log:
        record = loaded.decode(key, value)
        assert record is not None
        loaded.replay(record)
    loaded.handle_loaded(0)
    assert [each.state_name for each in loaded.groups()] == [each.state_name for each in shard.groups()]
