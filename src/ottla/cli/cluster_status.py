"""`ottla cluster status`: whether the cluster is well, and which of its partitions are not."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import describe_setting_of_topics
from ottla.client.admin.log_directories import LogDirectory, describe_log_directories
from ottla.client.admin.reassignments import list_reassignments
from ottla.client.errors import ClientError
from ottla.client.io.brokers import MetadataState, describe_cluster, metadata_state

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster
    from ottla.client.io.cluster_metadata import PartitionMetadata, TopicMetadata

SHOWN_MAX = 20
"""Partitions named for each thing that is wrong; a dead broker has thousands."""

PROBE_MS = 4_000
"""How long a broker may take to answer. It asks the metadata store for up to 2 seconds itself."""

CONNECT_MS = 2_000
"""How long a broker may take to answer a new connection: one that is stopped takes it and says nothing."""

AGE_MS_MAX = 15_000
"""Brokers look every 5 seconds whether their metadata is the newest."""

LIMIT_MS = 10_000
"""The whole command: brokers may stop while it runs."""


@click.command("status")
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="A JSON object, with every partition that is not well.")
def status(bootstrap: str, as_json: bool) -> None:
    """Show brokers with their leaderships, the controller, and partitions in trouble.

    A broker is fenced while the controller does not hear it. A partition is offline without a leader, under its
    min.insync.replicas while acks=all is refused, under-replicated while a replica is not in sync. Each broker
    that is not fenced is asked now, and asks the metadata store: one that does not answer within 4 seconds is down.
    A data directory that is offline is named with the reason.
    A broker whose metadata is old does not hear of decisions.

    The exit code is 1 when anything is not well.

    \b
    Example:
      ottla cluster status
    """
    found = with_cluster(
        bootstrap,
        _gather_in_time,
        next_address_after_ms=0,
        connect_timeout_ms=CONNECT_MS,
        handshake_timeout_ms=CONNECT_MS,
        request_timeout_ms=PROBE_MS,
        api_timeout_ms=PROBE_MS,
    )
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found["well"]:
        click.get_current_context().exit(ExitCode.FAILED)


async def _probe(cluster: "Cluster", broker_id: int) -> "MetadataState | None":
    """What a broker says of the metadata; None when it does not answer."""
    try:
        async with asyncio.timeout(PROBE_MS / 1000):  # a connection that nobody takes counts as well
            return await metadata_state(cluster, broker_id, timeout_ms=PROBE_MS)
    except (ClientError, TimeoutError):
        return None


async def _offline_directories(cluster: "Cluster", broker_id: int) -> "list[LogDirectory]":
    try:
        async with asyncio.timeout(PROBE_MS / 1000):
            found = await describe_log_directories(cluster, [broker_id], with_logs=False)
    except (ClientError, TimeoutError):
        return []  # it does not answer, which is shown as well, or may not be asked
    return [each for each in found if each.error]


async def _gather_in_time(cluster: "Cluster") -> dict[str, Any]:
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            return await _gather(cluster)
    except TimeoutError:
        raise CommandError(
            f"the cluster did not tell its state within {LIMIT_MS // 1000} s; ask another broker with --bootstrap"
        ) from None


async def _gather(cluster: "Cluster") -> dict[str, Any]:
    described = await describe_cluster(cluster)
    ids = [each.broker_id for each in described.brokers]
    states = dict(zip(ids, await asyncio.gather(*(_probe(cluster, each) for each in ids)), strict=True))
    answers = [each for each in states.values() if each is not None]
    newest = max(answers, key=lambda each: (each.epoch, each.offset), default=None)
    store_trouble = {each: state.store_trouble for each, state in states.items() if state and state.store_trouble}
    answering = [each for each, state in states.items() if state is not None]
    offline = await asyncio.gather(*(_offline_directories(cluster, each) for each in answering))
    directories = [each for some in offline for each in some]
    topics = await Admin(cluster).list_topics()
    moving = await list_reassignments(cluster)
    found: dict[str, Any] = {
        "cluster_id": described.cluster_id,
        "controller": described.controller_id if described.controller_id >= 0 else None,
        "controller_answers": states.get(described.controller_id) is not None,
        "controller_epoch": newest.epoch if newest else None,
        "metadata_offset": newest.offset if newest else None,
        "store_trouble": store_trouble,
        "brokers": [
            {
                "broker": each.broker_id,
                "host": each.address.host,
                "port": each.address.port,
                "rack": each.rack,
                "fenced": each.is_fenced,
                "answers": None if each.is_fenced else states[each.broker_id] is not None,
                "metadata_offset": state.offset if (state := states[each.broker_id]) else None,
                "metadata_age_ms": state.age_ms if state else None,
                "leaders": _count(topics, lambda partition, at=each.broker_id: partition.leader == at),
                "preferred": _count(topics, lambda partition, at=each.broker_id: partition.replicas[:1] == (at,)),
                "replicas": _count(topics, lambda partition, at=each.broker_id: at in partition.replicas),
                "out_of_sync": _count(
                    topics, lambda partition, at=each.broker_id: at in set(partition.replicas) - set(partition.isr)
                ),
            }
            for each in described.brokers
        ],
        "offline_directories": [
            {"broker": each.broker_id, "directory": each.path or None, "reason": each.reason} for each in directories
        ],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "offline": _names(topics, lambda partition: partition.leader < 0),
        "under_min_isr": await _under_min_isr(cluster, topics),
        "under_replicated": _names(topics, lambda partition: set(partition.replicas) > set(partition.isr)),
        "reassigned": [str(place) for place in sorted(moving)],
    }
    found["well"] = (
        found["controller_answers"]
        and not store_trouble
        and not directories
        and not any(map(_is_old, found["brokers"]))
        and all(each["answers"] and not each["fenced"] for each in found["brokers"])
        and not any(found[name] for name in ("offline", "under_min_isr", "under_replicated"))
    )
    return found


def _state(broker: dict[str, Any], controller: int | None) -> str:
    if broker["fenced"]:
        return "fenced"
    if not broker["answers"]:
        return "down"
    return "controller" if broker["broker"] == controller else "up"


def _is_old(broker: dict[str, Any]) -> bool:
    return (broker["metadata_age_ms"] or 0) > AGE_MS_MAX


def _count(topics: "list[TopicMetadata]", holds: Any) -> int:
    return sum(1 for topic in topics for partition in topic.partitions if holds(partition))


def _names(topics: "list[TopicMetadata]", holds: Any) -> list[str]:
    return [f"{topic.name}-{each.partition}" for topic in topics for each in topic.partitions if holds(each)]


async def _under_min_isr(cluster: "Cluster", topics: "list[TopicMetadata]") -> list[str]:
    """Whoever has all replicas in sync has enough, so that few topics have to be asked about."""

    def lacks(partition: "PartitionMetadata", wanted: int) -> bool:
        return len(partition.isr) < min(wanted, len(partition.replicas))

    lacking = [topic for topic in topics if any(lacks(each, len(each.replicas)) for each in topic.partitions)]
    wanted = await describe_setting_of_topics(cluster, [topic.name for topic in lacking], "min.insync.replicas")
    return [
        name
        for topic in lacking
        if topic.name in wanted  # one that is not was deleted meanwhile
        for name in _names([topic], lambda partition, least=int(wanted[topic.name] or 1): lacks(partition, least))
    ]


def _show(found: dict[str, Any]) -> None:
    controller = "none: nothing can be changed" if found["controller"] is None else found["controller"]
    click.echo(
        f"cluster {found['cluster_id']}  controller {controller}  epoch {found['controller_epoch']}  "
        f"metadata offset {found['metadata_offset']}"
    )
    columns = ["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "PREFERRED", "REPLICAS", "OUT OF SYNC"]
    rows = [
        (
            each["broker"],
            f"{each['host']}:{each['port']}",
            each["rack"],
            _state(each, found["controller"]),
            *(each[name] for name in ("leaders", "preferred", "replicas", "out_of_sync")),
        )
        for each in found["brokers"]
    ]
    print_table(columns, rows, right=["BROKER", *columns[4:]])
    click.echo(f"{found['partitions']} partitions of {found['topics']} topics")
    for name, what in (
        ("offline", "offline, without a leader"),
        ("under_min_isr", "under min.insync.replicas, acks=all is refused"),
        ("under_replicated", "under-replicated"),
        ("reassigned", "being reassigned"),
    ):
        places = found[name]
        if places:
            more = f", and {len(places) - SHOWN_MAX} more" if len(places) > SHOWN_MAX else ""
            click.echo(f"{len(places)} {what}: {', '.join(places[:SHOWN_MAX])}{more}")
    if found["controller"] is not None and not found["controller_answers"]:
        click.echo(f"the controller, broker {found['controller']}, does not answer: nothing can be changed")
    for each in found["offline_directories"]:
        what = f"{each['directory']} is offline: " if each["directory"] else ""
        click.echo(f"broker {each['broker']}: {what}{each['reason'] or 'its log says why'}")
    for each in filter(_is_old, found["brokers"]):
        click.echo(
            f"broker {each['broker']}: its metadata is {each['metadata_age_ms'] // 1000} s old, at offset "
            f"{each['metadata_offset']} of {found['metadata_offset']}"
        )
    for broker_id, trouble in found["store_trouble"].items():
        click.echo(f"broker {broker_id}: {trouble}; nothing can be changed while no broker reaches the store")
    if found["well"]:
        click.echo("every partition has a leader and all its replicas in sync")
