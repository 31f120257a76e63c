"""`ottla cluster decommission`, `unregister` and `elect`: which brokers hold and lead partitions."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli.changes import Changes, show_progress
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json
from ottla.cli.partition_selection import parse_selection, partitions_of
from ottla.cli.reassignment import (
    LOOK_AGAIN_MS,
    carry_out,
    execute_option,
    moves_of,
    no_wait_option,
    partitions_present,
    throttle_option,
)
from ottla.client.admin.admin import Admin
from ottla.client.admin.log_directories import describe_log_directories
from ottla.client.admin.reassignment_plan import plan_reassignment
from ottla.client.admin.reassignments import ElectionType, elect_leaders
from ottla.client.errors import ClientError
from ottla.client.io.brokers import describe_cluster, unregister_broker
from ottla.model.error_code import ErrorCode

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


@click.command("decommission")
@bootstrap_option
@click.argument("broker_id", metavar="BROKER", type=click.IntRange(0))
@execute_option
@no_wait_option
@throttle_option
@click.option("--json", "as_json", is_flag=True, help="A JSON object, with the moves and their state.")
def decommission(
    bootstrap: str, broker_id: int, execute: bool, no_wait: bool, throttle: int | None, as_json: bool
) -> None:
    """Move all replicas of a broker to the others, so that it can be removed.

    Without --execute, only show the plan. The broker may run or be dead. When it has no replicas left, stop it and
    run `ottla cluster unregister`.

    \b
    Example:
      ottla cluster decommission 3 --execute
    """

    say = partial(show_progress, as_json=as_json)

    async def action(cluster: "Cluster") -> None:
        known = {each.broker_id: each for each in (await describe_cluster(cluster)).brokers}
        if broker_id not in known:
            raise CommandError(
                f"there is no broker {broker_id}: the cluster has {', '.join(map(str, known))}", ExitCode.NOT_FOUND
            )
        everything = partitions_present(await Admin(cluster).list_topics())
        present = {place: replicas for place, replicas in everything.items() if broker_id in replicas}
        racks = {each.broker_id: each.rack for each in known.values() if not each.is_fenced}
        racks.pop(broker_id, None)
        # A replica that is on a broker which is not there now stays: it may come back.
        racks_of_all = {each.broker_id: each.rack for each in known.values() if each.broker_id != broker_id}
        busy = Counter(each for replicas in everything.values() for each in replicas)
        plan = plan_reassignment(present, racks_of_all, choices=racks, balance=False, busy=busy)
        document = {"broker": broker_id, "moves": moves_of(present, plan)}
        if plan and not await carry_out(
            cluster,
            present,
            plan,
            execute=execute,
            no_wait=no_wait,
            throttle=throttle,
            say=say if as_json else None,
        ):
            if as_json:
                print_json({**document, "state": "moving" if execute else "planned"})
            return
        has_deleted = await _until_deleted(cluster, broker_id, say)
        if as_json:
            print_json({**document, "state": "empty" if has_deleted else "moved"})
        elif has_deleted:
            click.echo(
                f"broker {broker_id} has no replicas left: stop it, then run `ottla cluster unregister {broker_id}`"
            )
        else:
            click.echo(
                f"broker {broker_id} has no replicas left. It is not running, so its files stay on its disk until it "
                f"is started. To remove it from the cluster, run `ottla cluster unregister {broker_id}`"
            )

    with_cluster(bootstrap, action)


async def _until_deleted(cluster: "Cluster", broker_id: int, say: Callable[[str], None] = click.echo) -> bool:
    """Wait until a broker has deleted the logs of what it held; False when it does not run."""
    said = 0
    while True:
        try:
            left = sum(len(each.logs) for each in await describe_log_directories(cluster, [broker_id]))
        except ClientError as error:
            here = [each for each in (await describe_cluster(cluster)).brokers if each.broker_id == broker_id]
            if not here or here[0].is_fenced:
                return False
            click.echo(f"ottla: retrying: {error}", err=True)
            left = said
        else:
            if not left:
                return True
            if left != said:
                said = left
                say(f"broker {broker_id} still has to delete {left} log{'s' * (left != 1)}")
        await cluster.io.pause(LOOK_AGAIN_MS)


@click.command("unregister")
@bootstrap_option
@click.argument("broker_id", metavar="BROKER", type=click.IntRange(0))
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
def unregister(bootstrap: str, broker_id: int, as_json: bool) -> None:
    """Remove the registration of a broker that does not come back. The broker must not run.

    \b
    Example:
      ottla cluster unregister 3
    """

    async def action(cluster: "Cluster") -> None:
        await unregister_broker(cluster, broker_id)

    with_cluster(bootstrap, action)
    if as_json:
        print_json({"broker": broker_id, "unregistered": True})
    else:
        click.echo(f"unregistered broker {broker_id}")


@click.command("elect")
@bootstrap_option
@click.argument("partitions", metavar="[TOPIC[:PARTITIONS]]...", nargs=-1)
@click.option(
    "--unclean", is_flag=True, help="Elect any replica for partitions without a leader: records that it lacks are LOST."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def elect(bootstrap: str, partitions: tuple[str, ...], unclean: bool, as_json: bool) -> None:
    """Elect the preferred replicas as leaders, of all partitions or of some.

    With --unclean, a replica outside the ISR may lead a partition without a leader. It may lack acknowledged
    records: use it only when all in-sync replicas are lost for good, and name the partitions.

    \b
    Examples:
      ottla cluster elect
      ottla cluster elect events:0,4-6 --unclean
    """
    selections = [parse_selection(text) for text in partitions]
    if unclean and not selections:
        raise click.UsageError("an unclean election loses data: name the partitions")

    async def action(cluster: "Cluster") -> None:
        wanted = await partitions_of(cluster, selections) if selections else None
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        outcomes = await elect_leaders(cluster, election, wanted)
        for place, error in sorted(outcomes.items()):
            is_failed = error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
            changes.row(
                topic=place.topic,
                partition=place.partition,
                elected=error is None,
                error=error.code.name if error is not None and is_failed else None,
            )
        elected = [str(place) for place, error in sorted(outcomes.items()) if error is None]
        failed = [
            error for _, error in sorted(outcomes.items()) if error and error.code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        if elected:
            changes.say(f"elected leaders of {', '.join(elected)}")
        elif not failed:
            changes.say("nothing to elect: all leaders are the preferred replicas")
        for error in failed[1:]:
            click.echo(f"ottla: {error}", err=True)
        if failed:
            raise CommandError(str(failed[0]))

    with Changes(as_json=as_json) as changes:
        with_cluster(bootstrap, action)
