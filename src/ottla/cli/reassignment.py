"""Moving replicas as commands do it: the plan is shown, carried out when that was asked for, and watched."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.failure import CommandError
from ottla.cli.output import print_table
from ottla.cli.replication_throttle import remove_throttle, set_throttle

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_metadata import TopicMetadata
    from ottla.client.errors import BrokerError
    from ottla.client.reassignment_plan import Assignment
    from ottla.model.topic_partition import TopicPartition

LOOK_AGAIN_MS = 500
"""Between two looks at what moves still."""

BATCH_PARTITIONS = 500
"""Partitions of one request: the controller decides it at once, and its answer stays small."""


def partitions_present(topics: "Collection[TopicMetadata]") -> "Assignment":
    """Where the replicas of topics are now."""
    from ottla.model.topic_partition import TopicPartition

    return {TopicPartition(topic.name, each.partition): each.replicas for topic in topics for each in topic.partitions}


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


execute_option = click.option("--execute", is_flag=True, help="Carry the plan out.")
no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait until everything has moved.")
throttle_option = click.option(
    "--throttle",
    metavar="BYTES",
    type=click.IntRange(1),
    help="Copy at most so many bytes a second from and to each broker; taken back when all has moved, or by --verify.",
)


async def carry_out(
    cluster: "Cluster",
    present: "Assignment",
    plan: "Assignment",
    *,
    execute: bool,
    no_wait: bool,
    throttle: int | None,
) -> bool:
    """Show a plan, and with `execute` have it done, and with `no_wait` not wait for that; whether all of it is done."""
    if not plan:
        click.echo("every replica is where it is to be: nothing to move")
        return True
    show_plan(present, plan)
    if not execute:
        click.echo(f"{_count(len(plan))} would change; --execute has them do so")
        return False
    if throttle is not None:
        await set_throttle(cluster, present, plan, throttle)
    await begin(cluster, plan)
    if no_wait:
        click.echo("under way; `ottla topic reassign --verify` shows how far it is")
        return False
    await watch(cluster, plan)
    if throttle is not None:
        await remove_throttle(cluster, {place.topic for place in plan})
    return True


def _count(number: int) -> str:
    return f"{number} partition{'s' * (number != 1)}"


async def begin(cluster: "Cluster", plan: "Mapping[TopicPartition, tuple[int, ...]]") -> None:
    """Have partitions move. Raises CommandError that names what was refused; the others go on."""
    _require_none(await _alter(cluster, plan), plan)


async def take_back(cluster: "Cluster", places: "Collection[TopicPartition]") -> "list[TopicPartition]":
    """Have partitions stay where they were; those that had not arrived before that. Raises CommandError."""
    from ottla.model.error_code import ErrorCode

    refused = await _alter(cluster, dict.fromkeys(places))
    _require_none({p: e for p, e in refused.items() if e.code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}, places)
    return sorted(set(places) - refused.keys())


async def _alter(
    cluster: "Cluster", plan: "Mapping[TopicPartition, tuple[int, ...] | None]"
) -> "dict[TopicPartition, BrokerError]":
    """What was refused."""
    from ottla.client.reassignments import alter_reassignments

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


async def watch(cluster: "Cluster", places: "Collection[TopicPartition]") -> None:
    """Say how far it is until nothing of it moves any more; Ctrl-C leaves it going on."""
    from ottla.client.errors import ClientError
    from ottla.client.reassignments import list_reassignments

    left_before = None
    while True:
        try:
            left = len(await list_reassignments(cluster, places))
        except ClientError as error:
            click.echo(f"ottla: asking again: {error}", err=True)
            left = left_before if left_before is not None else len(places)
        if left != left_before:
            click.echo(f"{len(places) - left} of {_count(len(places))} moved")
            left_before = left
        if not left:
            return
        await cluster.io.pause(LOOK_AGAIN_MS)
