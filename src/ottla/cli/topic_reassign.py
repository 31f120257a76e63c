"""`ottla topic reassign`: move replicas of topics to other brokers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.output import print_table
from ottla.cli.reassignment import (
    carry_out,
    execute_option,
    no_wait_option,
    partitions_present,
    take_back,
    throttle_option,
)
from ottla.cli.replication_throttle import remove_throttle
from ottla.cli.topic_names import regex_option, topic_names

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.reassignment_plan import Assignment


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
@click.option("--brokers", "brokers", type=BrokerList(), help="Where the replicas are to be.  [all that are up]")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1, 32767), help="Copies of each partition, from now on."
)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="A plan in a file, as Kafka's tool has it, instead."
)
@click.option("--json", "as_json", is_flag=True, help="Show the plan as such a file; nothing else is written.")
@execute_option
@no_wait_option
@throttle_option
@click.option("--verify", is_flag=True, help="Show what of these topics, or of all, moves still.")
@click.option("--cancel", is_flag=True, help="Have what moves of these topics, or of all, stay where it was.")
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
    """Move replicas to other brokers, or have more or fewer of them. Without --execute the plan is only shown.

    The plan moves as little as it can, and spreads replicas over racks and leaders over brokers. A partition has its
    new replicas when those have copied everything; until then the old ones serve, and stay with --cancel.

    \b
    Examples:
      ottla topic reassign events --brokers 1,2,3,4
      ottla topic reassign events --brokers 1,2,3,4 --execute
      ottla topic reassign events --json > plan.json && ottla topic reassign --plan plan.json --execute
      ottla topic reassign --verify
    """
    planned = _read(plan_file) if plan_file is not None else None
    if verify + cancel + execute + as_json > 1:
        raise click.UsageError("give one of --execute, --json, --verify and --cancel")
    if planned is not None and (names or brokers or replication_factor):
        raise click.UsageError("a plan says itself which partitions go where: give --plan alone")
    if not (names or planned or verify or cancel):
        raise click.UsageError("say which topics: TOPIC..., or a plan with --plan")

    async def action(cluster: "Cluster") -> None:
        if verify or cancel:
            places = await _present(cluster, names, is_regex=is_regex) if names else planned
            await _verify(cluster, places, cancel=cancel)
            return
        if planned is not None:
            present = await _present(cluster, sorted({place.topic for place in planned}), is_regex=False)
            _require_known(planned, present)
            plan = {place: replicas for place, replicas in planned.items() if replicas != present[place]}
        else:
            present = await _present(cluster, names, is_regex=is_regex)
            plan = await _plan(cluster, present, brokers, replication_factor)
        if as_json:
            from ottla.client.reassignment_plan import plan_text

            click.echo(plan_text(plan))
        else:
            await carry_out(cluster, present, plan, execute=execute, no_wait=no_wait, throttle=throttle)

    with_cluster(bootstrap, action)


def _read(path: Path) -> "Assignment":
    from ottla.client.errors import InvalidOptionError
    from ottla.client.reassignment_plan import parse_plan

    try:
        return parse_plan(path.read_bytes())
    except InvalidOptionError as error:
        raise click.UsageError(f"{path}: {error}") from error


async def _present(cluster: "Cluster", names: "tuple[str, ...] | list[str]", *, is_regex: bool) -> "Assignment":
    from ottla.client.admin import Admin

    wanted = await topic_names(cluster, names, is_regex=is_regex)
    return partitions_present(await Admin(cluster).describe_topics(wanted))


def _require_known(planned: "Assignment", present: "Assignment") -> None:
    from ottla.client.errors import TopicNotFoundError

    for place in planned:
        if place not in present:
            raise TopicNotFoundError(place.topic, place.partition)


async def _plan(
    cluster: "Cluster", present: "Assignment", wanted: tuple[int, ...] | None, replication_factor: int | None
) -> "Assignment":
    from ottla.client.brokers import describe_cluster
    from ottla.client.reassignment_plan import plan_reassignment

    known = {each.broker_id: each for each in (await describe_cluster(cluster)).brokers}
    if wanted is None:
        wanted = tuple(broker_id for broker_id, each in known.items() if not each.is_fenced)
    missing = [broker_id for broker_id in wanted if broker_id not in known]
    if missing:
        raise click.BadParameter(f"there is no broker {missing[0]}: the cluster has {', '.join(map(str, known))}")
    racks = {broker_id: known[broker_id].rack for broker_id in wanted}
    return plan_reassignment(present, racks, replication_factor=replication_factor)


async def _verify(cluster: "Cluster", places: "Assignment | None", *, cancel: bool) -> None:
    from ottla.client.admin import Admin
    from ottla.client.reassignments import list_reassignments

    moving = await list_reassignments(cluster, places)
    if not moving:
        topics = {place.topic for place in places or ()} or {each.name for each in await Admin(cluster).list_topics()}
        freed = await remove_throttle(cluster, topics)
        click.echo("nothing moves" + ("; what throttled it is taken back" if freed else ""))
        return
    if cancel:
        cancelled = await take_back(cluster, moving)
        if cancelled:
            click.echo(f"cancelled {len(cancelled)}: {', '.join(map(str, cancelled))}")
        else:
            click.echo("nothing is cancelled: all of it has arrived")
        return
    rows = [
        (place.topic, place.partition, each.replicas, each.adding or None, each.removing or None)
        for place, each in sorted(moving.items())
    ]
    print_table(["TOPIC", "PARTITION", "REPLICAS", "BEING COPIED TO", "LEAVES"], rows, right=["PARTITION"])
