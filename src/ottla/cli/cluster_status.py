"""`ottla cluster status`: whether the cluster is well, and which of its partitions are not."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.output import print_json, print_table

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_metadata import PartitionMetadata, TopicMetadata

SHOWN_MAX = 20
"""Partitions named for each thing that is wrong; a dead broker has thousands."""


@click.command("status")
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="A JSON object, with every partition that is not well.")
def status(bootstrap: str, as_json: bool) -> None:
    """Show brokers with what they lead, who decides, and the partitions that are not as they should be.

    A broker is fenced while the controller does not hear it. A partition is offline without a leader, under its
    min.insync.replicas while acks=all is refused, under-replicated while a replica is not in sync.

    \b
    Example:
      ottla cluster status
    """
    found = with_cluster(bootstrap, _gather)
    if as_json:
        print_json(found)
    else:
        _show(found)


async def _gather(cluster: "Cluster") -> dict[str, Any]:
    from ottla.client.admin import Admin
    from ottla.client.brokers import describe_cluster, metadata_state
    from ottla.client.reassignments import list_reassignments

    described = await describe_cluster(cluster)
    metadata = await metadata_state(cluster)
    topics = await Admin(cluster).list_topics()
    moving = await list_reassignments(cluster)
    return {
        "cluster_id": described.cluster_id,
        "controller": described.controller_id if described.controller_id >= 0 else None,
        "controller_epoch": metadata.epoch,
        "metadata_offset": metadata.offset,
        "brokers": [
            {
                "broker": each.broker_id,
                "host": each.address.host,
                "port": each.address.port,
                "rack": each.rack,
                "fenced": each.is_fenced,
                "leaders": _count(topics, lambda partition, at=each.broker_id: partition.leader == at),
                "preferred": _count(topics, lambda partition, at=each.broker_id: partition.replicas[:1] == (at,)),
                "replicas": _count(topics, lambda partition, at=each.broker_id: at in partition.replicas),
                "out_of_sync": _count(
                    topics, lambda partition, at=each.broker_id: at in set(partition.replicas) - set(partition.isr)
                ),
            }
            for each in described.brokers
        ],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "offline": _names(topics, lambda partition: partition.leader < 0),
        "under_min_isr": await _under_min_isr(cluster, topics),
        "under_replicated": _names(topics, lambda partition: set(partition.replicas) > set(partition.isr)),
        "reassigned": [str(place) for place in sorted(moving)],
    }


def _count(topics: "list[TopicMetadata]", holds: Any) -> int:
    return sum(1 for topic in topics for partition in topic.partitions if holds(partition))


def _names(topics: "list[TopicMetadata]", holds: Any) -> list[str]:
    return [f"{topic.name}-{each.partition}" for topic in topics for each in topic.partitions if holds(each)]


async def _under_min_isr(cluster: "Cluster", topics: "list[TopicMetadata]") -> list[str]:
    """Whoever has all replicas in sync has enough, so that few topics have to be asked about."""
    from ottla.client.admin import Admin
    from ottla.client.configs import ConfigResource
    from ottla.client.errors import TopicNotFoundError

    def lacks(partition: "PartitionMetadata", wanted: int) -> bool:
        return len(partition.isr) < min(wanted, len(partition.replicas))

    found = []
    for topic in topics:
        if any(lacks(partition, len(partition.replicas)) for partition in topic.partitions):
            try:
                [entry] = await Admin(cluster).describe_configs(
                    ConfigResource.topic(topic.name), ["min.insync.replicas"]
                )
            except TopicNotFoundError:  # deleted meanwhile
                continue
            wanted = int(entry.value or 1)
            found += _names([topic], lambda partition, wanted=wanted: lacks(partition, wanted))
    return found


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
            "fenced" if each["fenced"] else "controller" if each["broker"] == found["controller"] else "up",
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
    if not found["offline"] and not found["under_replicated"]:
        click.echo("every partition has a leader and all its replicas in sync")
