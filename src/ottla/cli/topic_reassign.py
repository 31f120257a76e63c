"""`ottla topic reassign`: move replicas of topics to other brokers."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.changes import show_progress
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.output import print_json, print_table
from ottla.cli.reassignment import (
    carry_out,
    execute_option,
    moves_of,
    no_wait_option,
    partitions_present,
    take_back,
    throttle_option,
)
from ottla.cli.replication_throttle import remove_throttle, throttled_topics
from ottla.cli.topic_names import regex_option, topic_names
from ottla.client.admin.admin import Admin
from ottla.client.admin.reassignment_plan import Assignment, parse_plan, plan_reassignment, plan_text
from ottla.client.admin.reassignments import list_reassignments
from ottla.client.errors import InvalidOptionError, TopicNotFoundError
from ottla.client.io.brokers import describe_cluster

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


class BrokerList(click.ParamType[tuple[int, ...]]):
    """`1,2,3`: the numbers of brokers, each once."""

    name = "1,2,3"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read the text, or fail as a usage error."""
        if isinstance(value, tuple):
            return value
        numbers = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdecimal() and len(part) <= 9 for part in numbers):
            self.fail(f"{value!r} is not a list of brokers such as 1,2,3", param, ctx)
        return tuple(dict.fromkeys(map(int, numbers)))


@click.command("reassign")
@bootstrap_option
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@regex_option
@click.option("--brokers", "brokers", type=BrokerList(), help="The brokers for the replicas.  [all live brokers]")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1, 32767), help="The new number of replicas of each partition."
)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="Use a plan file, in the format of Kafka's tool."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="JSON: the plan as such a file, or with --execute, --verify or --cancel an object.",
)
@execute_option
@no_wait_option
@throttle_option
@click.option("--verify", is_flag=True, help="Show the moves in progress, of these topics or of all.")
@click.option("--cancel", is_flag=True, help="Cancel the moves in progress, of these topics or of all.")
def reassign(
    bootstrap: str,
    names: tuple[str, ...],
    is_regex: bool,
    brokers: tuple[int, ...] | None,
    replication_factor: int | None,
    plan_file: Path | None,
    as_json: bool,
    execute: bool,
    no_wait: bool,
    throttle: int | None,
    verify: bool,
    cancel: bool,
) -> None:
    """Move replicas to other brokers, or change their number. Without --execute, only show the plan.

    The plan moves as little as possible, and spreads replicas over racks and leaders over brokers. New replicas
    take over when they have copied everything; until then the old ones serve, and --cancel keeps them.

    \b
    Examples:
      ottla topic reassign events --brokers 1,2,3,4
      ottla topic reassign events --brokers 1,2,3,4 --execute
      ottla topic reassign events --json > plan.json && ottla topic reassign --plan plan.json --execute
      ottla topic reassign --verify
    """
    planned = _read(plan_file) if plan_file is not None else None
    if verify + cancel + execute > 1:
        raise click.UsageError("give one of --execute, --verify and --cancel")
    if planned is not None and (names or brokers or replication_factor):
        raise click.UsageError(
            "a plan names its topics and brokers: give --plan without TOPIC, --brokers and --replication-factor"
        )
    if not (names or planned or verify or cancel):
        raise click.UsageError("name the topics, or give a plan with --plan")

    async def action(cluster: "Cluster") -> None:
        if verify or cancel:
            places = await _present(cluster, names, is_regex=is_regex) if names else planned
            await _verify(cluster, places, cancel=cancel, as_json=as_json)
            return
        if planned is not None:
            present = await _present(cluster, sorted({place.topic for place in planned}), is_regex=False)
            _require_known(planned, present)
            plan = {place: replicas for place, replicas in planned.items() if replicas != present[place]}
        else:
            present = await _present(cluster, names, is_regex=is_regex)
            plan = await _plan(cluster, present, brokers, replication_factor)
        if as_json and not execute:
            click.echo(plan_text(plan))
            return
        say = partial(show_progress, as_json=True) if as_json else None
        is_done = await carry_out(cluster, present, plan, execute=execute, no_wait=no_wait, throttle=throttle, say=say)
        if as_json:
            print_json({"state": "moved" if is_done else "moving", "moves": moves_of(present, plan)})

    with_cluster(bootstrap, action)


def _read(path: Path) -> "Assignment":
    try:
        return parse_plan(path.read_bytes())
    except InvalidOptionError as error:
        raise click.UsageError(f"{path}: {error}") from error


async def _present(cluster: "Cluster", names: "tuple[str, ...] | list[str]", *, is_regex: bool) -> "Assignment":
    wanted = await topic_names(cluster, names, is_regex=is_regex)
    return partitions_present(await Admin(cluster).describe_topics(wanted))


def _require_known(planned: "Assignment", present: "Assignment") -> None:
    for place in planned:
        if place not in present:
            raise TopicNotFoundError(place.topic, place.partition)


async def _plan(
    cluster: "Cluster", present: "Assignment", wanted: tuple[int, ...] | None, replication_factor: int | None
) -> "Assignment":
    known = {each.broker_id: each for each in (await describe_cluster(cluster)).brokers}
    if wanted is None:
        wanted = tuple(broker_id for broker_id, each in known.items() if not each.is_fenced)
    missing = [broker_id for broker_id in wanted if broker_id not in known]
    if missing:
        raise click.BadParameter(f"there is no broker {missing[0]}: the cluster has {', '.join(map(str, known))}")
    racks = {broker_id: known[broker_id].rack for broker_id in wanted}
    return plan_reassignment(present, racks, replication_factor=replication_factor)


async def _verify(cluster: "Cluster", places: "Assignment | None", *, cancel: bool, as_json: bool) -> None:
    """Show what moves, or cancel it; what has ended loses its throttle."""
    moving = await list_reassignments(cluster, places)
    cancelled = await take_back(cluster, moving) if cancel and moving else []
    ended = places if not moving else moving if cancel else None
    freed = ended is not None and await remove_throttle(cluster, ended)
    # Whose the throttles of other topics are nobody can tell: some may be set by hand.
    throttled = await throttled_topics(cluster) if not moving and places is None else []
    if as_json:
        print_json(
            {
                "moving": [
                    {
                        "topic": place.topic,
                        "partition": place.partition,
                        "replicas": list(each.replicas),
                        "adding": list(each.adding),
                        "removing": list(each.removing),
                    }
                    for place, each in sorted(moving.items())
                    if not cancel
                ],
                "cancelled": [{"topic": each.topic, "partition": each.partition} for each in cancelled],
                "throttle_removed": freed,
                "throttled_topics": throttled,
            }
        )
    elif not moving:
        click.echo("no moves in progress" + ("; the throttle is removed" if freed else ""))
        if throttled:
            click.echo(
                f"throttled replicas: `ottla topic reassign {' '.join(throttled)} --verify` removes these throttles"
            )
    elif cancel:
        if cancelled:
            click.echo(f"cancelled {len(cancelled)}: {', '.join(map(str, cancelled))}")
        else:
            click.echo("nothing to cancel: no moves in progress")
        if freed:
            click.echo("the throttle is removed")
    else:
        rows = [
            (place.topic, place.partition, each.replicas, each.adding or None, each.removing or None)
            for place, each in sorted(moving.items())
        ]
        print_table(["TOPIC", "PARTITION", "REPLICAS", "BEING COPIED TO", "LEAVES"], rows, right=["PARTITION"])
