"""Moving replicas as commands do it: the plan is shown, carried out when that was asked for, and watched."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.failure import CommandError
from ottla.cli.output import print_table
from ottla.cli.replication_throttle import ReplicationThrottle
from ottla.client.admin.reassignments import alter_reassignments, list_reassignments
from ottla.client.errors import BrokerError, ClientError
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.reassignment_plan import Assignment
    from ottla.client.io.cluster import Cluster
    from ottla.client.io.cluster_metadata import TopicMetadata

LOOK_AGAIN_MS = 500
"""Between two looks at what moves still."""

BATCH_PARTITIONS = 500
"""Partitions of one request: the controller decides it at once, and its answer stays small."""


def partitions_present(topics: "Collection[TopicMetadata]") -> "Assignment":
    """Where the replicas of topics are now."""
    return {TopicPartition(topic.name, each.partition): each.replicas for topic in topics for each in topic.partitions}


def moves_of(present: "Mapping[TopicPartition, Sequence[int]]", plan: "Assignment") -> list[dict[str, Any]]:
    """A plan for machines: where each replica is, and where it is to be."""
    return [
        {"topic": place.topic, "partition": place.partition, "from": list(present[place]), "to": list(replicas)}
        for place, replicas in sorted(plan.items())
    ]


def show_plan(present: "Mapping[TopicPartition, Sequence[int]]", plan: "Assignment") -> None:
    """What moves from where to where."""
    rows = []
    for place, replicas in sorted(plan.items()):
        had = present[place]
        rows.append(
            (
                place.topic,
                place.partition,
                had,
                replicas,
                [each for each in replicas if each not in had] or None,
                [each for each in had if each not in replicas] or None,
            )
        )
    print_table(["TOPIC", "PARTITION", "FROM", "TO", "COPIED TO", "REMOVED FROM"], rows, right=["PARTITION"])


execute_option = click.option("--execute", is_flag=True, help="Execute the plan.")
no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait until everything has moved.")
throttle_option = click.option(
    "--throttle",
    metavar="BYTES",
    type=click.IntRange(1),
    help="Copy at most so many bytes a second from and to each broker, until all has moved. After --no-wait, "
    "`ottla topic reassign TOPIC --verify` removes the throttle.",
)


async def carry_out(
    cluster: "Cluster",
    present: "Assignment",
    plan: "Assignment",
    *,
    execute: bool,
    no_wait: bool,
    throttle: int | None,
    say: Callable[[str], None] | None = None,
) -> bool:
    """Show a plan, and with `execute` have it done, and with `no_wait` not wait for that; whether all of it is done.

    With `say` the plan is not shown, and each other line is passed to it.
    """
    if plan and say is None:
        show_plan(present, plan)
    say = say or click.echo
    if not plan:
        say("nothing to move: all replicas are already on these brokers")
        return True
    if not execute:
        say(f"{_count(len(plan))} would change; add --execute to do it")
        return False
    limit = None
    if throttle is not None:
        limit = ReplicationThrottle(cluster, present, plan, say)
        await limit.set(throttle, is_left=no_wait)
    try:
        refused = await _alter(cluster, plan)
    except ClientError:
        if limit is not None:
            await limit.remove(still_moving=await list_reassignments(cluster, plan))
        raise
    if refused and limit is not None:
        await limit.remove(still_moving=plan.keys() - refused.keys())
    _require_none(refused, plan)
    topics = " ".join(sorted({place.topic for place in plan}))
    if no_wait:
        also = " and removes the throttle when all has moved" if limit is not None else ""
        say(f"in progress; `ottla topic reassign {topics} --verify` shows the progress{also}")
        return False
    await watch(cluster, plan, say)
    if limit is not None:
        await limit.remove()
    return True


def _count(number: int) -> str:
    return f"{number} partition{'s' * (number != 1)}"


async def take_back(cluster: "Cluster", places: "Collection[TopicPartition]") -> "list[TopicPartition]":
    """Have partitions stay where they were; those that had not arrived before that. Raises CommandError."""
    refused = await _alter(cluster, dict.fromkeys(places))
    _require_none({p: e for p, e in refused.items() if e.code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}, places)
    return sorted(set(places) - refused.keys())


async def _alter(
    cluster: "Cluster", plan: "Mapping[TopicPartition, tuple[int, ...] | None]"
) -> "dict[TopicPartition, BrokerError]":
    """What was refused."""
    refused: dict[TopicPartition, BrokerError] = {}
    places = sorted(plan)
    for start in range(0, len(places), BATCH_PARTITIONS):
        some = {place: plan[place] for place in places[start : start + BATCH_PARTITIONS]}
        refused |= {place: error for place, error in (await alter_reassignments(cluster, some)).items() if error}
    return refused


def _require_none(refused: "Mapping[TopicPartition, BrokerError]", asked: "Collection[TopicPartition]") -> None:
    if refused:
        first, *others = refused.values()
        for error in others:
            click.echo(f"ottla: {error}", err=True)
        raise CommandError(f"{first} ({len(refused)} of {len(asked)} were refused)")


async def watch(
    cluster: "Cluster", places: "Collection[TopicPartition]", say: Callable[[str], None] = click.echo
) -> None:
    """Say how far it is until nothing of it moves any more; Ctrl-C leaves it going on."""
    left_before = None
    while True:
        try:
            left = len(await list_reassignments(cluster, places))
        except ClientError as error:
            click.echo(f"ottla: retrying: {error}", err=True)
            left = left_before if left_before is not None else len(places)
        if left != left_before:
            say(f"{len(places) - left} of {_count(len(places))} moved")
            left_before = left
        if not left:
            return
        await cluster.io.pause(LOOK_AGAIN_MS)
