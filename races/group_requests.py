"""Requests about groups, of every version: commits, their deletion, and what administrators ask."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages import delete_groups as dg
from ottla.protocol.messages import describe_groups as deg
from ottla.protocol.messages import find_coordinator as fc
from ottla.protocol.messages import list_groups as lg
from ottla.protocol.messages import offset_commit as oc
from ottla.protocol.messages import offset_delete as od
from ottla.protocol.messages import offset_fetch as of
from races.history import Commit, CommitSeen, CommitsWiped, Exchange
from races.log_requests import pick_version
from races.raw_connection import Ask
from races.stage import Stage, answered

SIMPLE_GROUPS = tuple(f"simple-{number}" for number in range(4))
"""Groups without members: whoever wants to commits for them."""

NOBODY = ("", -1)
"""The member id and generation of who commits for a group without members."""


def find_coordinator(stage: Stage, rng: Random, group: str) -> Ask:
    """Which broker a group belongs to."""
    version = pick_version(fc.FindCoordinatorRequest, rng)
    if version < 4:
        return Ask(fc.FindCoordinatorRequest(key=group), version, about=group)
    return Ask(fc.FindCoordinatorRequest(coordinator_keys=(group,)), version, about=group)


def commit_offsets(
    stage: Stage, rng: Random, group: str, topic: str, member: tuple[str, int] = NOBODY, partition: int | None = None
) -> Ask:
    """One committed offset, whose note says which it is."""
    version = pick_version(oc.OffsetCommitRequest, rng)
    topic_id = stage.topic_id(topic, rng) if version >= 10 else None
    if version >= 10 and topic_id is None:
        version = 9
    partition = stage.partition_of(topic, rng) if partition is None else partition
    commit = Commit(
        topic,
        partition,
        stage.now(),
        topic_id=topic_id,
        group=group,
        token=f"c{stage.round_number}.{stage.next_value()}",
    )
    stage.history.commits.append(commit)
    wanted = oc.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=rng.randrange(1000), committed_metadata=commit.token
    )
    request = oc.OffsetCommitRequest(
        group_id=group,
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        topics=(oc.OffsetCommitRequestTopic(name=topic, topic_id=topic_id or ZERO_UUID, partitions=(wanted,)),),
    )
    if version >= 10:
        request = oc.OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=(oc.OffsetCommitRequestTopic(topic_id=topic_id or ZERO_UUID, partitions=(wanted,)),),
        )

    def on_answer(response: Any, exchange: Exchange) -> None:
        answered(commit, exchange, response.topics[0].partitions[0].error_code)

    return Ask(request, version, on_answer, about=f"{group} {topic}")


def fetch_offsets(stage: Stage, rng: Random, group: str, topic: str, partition: int | None = None) -> Ask:
    """The committed offset of one partition."""
    version = pick_version(of.OffsetFetchRequest, rng)
    topic_id = stage.topic_id(topic, rng) if version >= 10 else None
    if version >= 10 and topic_id is None:
        version = 9
    partition = stage.partition_of(topic, rng) if partition is None else partition
    seen = CommitSeen(topic, partition, stage.now(), topic_id=topic_id, group=group)
    stage.history.commits_seen.append(seen)
    if version < 8:
        old = of.OffsetFetchRequestTopic(name=topic, partition_indexes=(partition,))
        request = of.OffsetFetchRequest(group_id=group, topics=(old,))
    else:
        wanted = of.OffsetFetchRequestTopics(
            name="" if topic_id else topic, topic_id=topic_id or ZERO_UUID, partition_indexes=(partition,)
        )
        request = of.OffsetFetchRequest(groups=(of.OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),))

    def on_answer(response: Any, exchange: Exchange) -> None:
        whole = response if version < 8 else response.groups[0]
        if whole.error_code or not whole.topics:
            return  # of the group alone
        (told,) = whole.topics[0].partitions
        answered(seen, exchange, told.error_code)
        seen.token = (told.metadata or "") if told.committed_offset >= 0 else ""

    return Ask(request, version, on_answer, about=f"{group} {topic}")


def delete_offsets(stage: Stage, rng: Random, group: str, topic: str) -> Ask:
    """OffsetDelete of one partition."""
    wiped = CommitsWiped(group, stage.now(), topic=topic)
    stage.history.commits_wiped.append(wiped)
    partition = od.OffsetDeleteRequestPartition(partition_index=stage.partition_of(topic, rng))
    request = od.OffsetDeleteRequest(
        group_id=group, topics=(od.OffsetDeleteRequestTopic(name=topic, partitions=(partition,)),)
    )
    return Ask(request, 0, _wiped(wiped), about=f"{group} {topic}")


def delete_group(stage: Stage, rng: Random, group: str) -> Ask:
    """DeleteGroups."""
    wiped = CommitsWiped(group, stage.now())
    stage.history.commits_wiped.append(wiped)
    request = dg.DeleteGroupsRequest(groups_names=(group,))
    return Ask(request, pick_version(dg.DeleteGroupsRequest, rng), _wiped(wiped), about=group)


def _wiped(wiped: CommitsWiped) -> Any:
    def on_answer(_: Any, exchange: Exchange) -> None:
        wiped.answered_at = exchange.answered_at

    return on_answer


def describe_group(stage: Stage, rng: Random, group: str) -> Ask:
    """DescribeGroups."""
    request = deg.DescribeGroupsRequest(groups=(group,))
    return Ask(request, pick_version(deg.DescribeGroupsRequest, rng), about=group)


def list_groups(stage: Stage, rng: Random, group: str) -> Ask:
    """ListGroups."""
    return Ask(lg.ListGroupsRequest(), pick_version(lg.ListGroupsRequest, rng))
