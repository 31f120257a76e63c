"""`ottla cluster decommission`, `unregister` and `elect`: which brokers hold and lead partitions."""

from typing import TYPE_CHECKING

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.partition_selection import parse_selection, partitions_of
from ottla.cli.reassignment import (
    LOOK_AGAIN_MS,
    carry_out,
    execute_option,
    no_wait_option,
    partitions_present,
    throttle_option,
)

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster


@click.command("decommission")
@bootstrap_option
@click.argument("broker_id", metavar="BROKER", type=click.IntRange(0))
@execute_option
@no_wait_option
@throttle_option
def decommission(bootstrap: str, broker_id: int, execute: bool, no_wait: bool, throttle: int | None) -> None:
    """Move everything that a broker holds to the others, so that it can be stopped for good.

    Without --execute the plan is only shown. The broker may run or be dead; when nothing is on it any more, its files
    included, stop it and have the cluster forget it with `ottla cluster unregister`.

    \b
    Example:
      ottla cluster decommission 3 --execute
    """

    async def action(cluster: "Cluster") -> None:
        from collections import Counter

        from ottla.client.admin import Admin
        from ottla.client.brokers import describe_cluster
        from ottla.client.reassignment_plan import plan_reassignment

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
        if plan and not await carry_out(cluster, present, plan, execute=execute, no_wait=no_wait, throttle=throttle):
            return
        if await _until_deleted(cluster, broker_id):
            click.echo(
                f"broker {broker_id} holds nothing any more: stop it, then `ottla cluster unregister {broker_id}`"
            )
        else:
            click.echo(
                f"nothing is placed on broker {broker_id} any more; it does not run, so its files stay on its disk "
                f"until it is started: `ottla cluster unregister {broker_id}` has it forgotten"
            )

    with_cluster(bootstrap, action)


async def _until_deleted(cluster: "Cluster", broker_id: int) -> bool:
    """Wait until a broker has deleted the logs of what it held; False when it does not run."""
    from ottla.client.brokers import describe_cluster
    from ottla.client.errors import ClientError
    from ottla.client.log_directories import describe_log_directories

    said = 0
    while True:
        try:
            left = sum(len(each.logs) for each in await describe_log_directories(cluster, [broker_id]))
        except ClientError as error:
            here = [each for each in (await describe_cluster(cluster)).brokers if each.broker_id == broker_id]
            if not here or here[0].is_fenced:
                return False
            click.echo(f"ottla: asking again: {error}", err=True)
            left = said
        else:
            if not left:
                return True
            if left != said:
                said = left
                click.echo(f"broker {broker_id} has yet to delete {left} log{'s' * (left != 1)}")
        await cluster.io.pause(LOOK_AGAIN_MS)


@click.command("unregister")
@bootstrap_option
@click.argument("broker_id", metavar="BROKER", type=click.IntRange(0))
def unregister(bootstrap: str, broker_id: int) -> None:
    """Have the cluster forget a broker that does not come back. It must not run.

    \b
    Example:
      ottla cluster unregister 3
    """

    async def action(cluster: "Cluster") -> None:
        from ottla.client.brokers import unregister_broker

        await unregister_broker(cluster, broker_id)
        click.echo(f"broker {broker_id} is forgotten")

    with_cluster(bootstrap, action)


@click.command("elect")
@bootstrap_option
@click.argument("partitions", metavar="[TOPIC[:PARTITIONS]]...", nargs=-1)
@click.option(
    "--unclean", is_flag=True, help="Of partitions without a leader elect any replica: what it lacks is LOST."
)
def elect(bootstrap: str, partitions: tuple[str, ...], unclean: bool) -> None:
    """Have the first replica of each partition lead it, of all partitions or of some.

    With --unclean partitions that nobody leads are led again by a replica that may lack what was acknowledged: only
    when those that have everything are gone for good. It wants the partitions named.

    \b
    Examples:
      ottla cluster elect
      ottla cluster elect events:0,4-6 --unclean
    """
    selections = [parse_selection(text) for text in partitions]
    if unclean and not selections:
        raise click.UsageError("an unclean election loses data: name the partitions")

    async def action(cluster: "Cluster") -> None:
        from ottla.client.reassignments import ElectionType, elect_leaders
        from ottla.model.error_code import ErrorCode

        wanted = await partitions_of(cluster, selections) if selections else None
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        outcomes = await elect_leaders(cluster, election, wanted)
        elected = [str(place) for place, error in sorted(outcomes.items()) if error is None]
        failed = [
            error for _, error in sorted(outcomes.items()) if error and error.code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        if elected:
            click.echo(f"elected leaders of {', '.join(elected)}")
        elif not failed:
            click.echo("every leader is the one it is to be: nobody was elected")
        for error in failed[1:]:
            click.echo(f"ottla: {error}", err=True)
        if failed:
            raise CommandError(str(failed[0]))

    with_cluster(bootstrap, action)
