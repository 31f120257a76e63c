"""`ottla topic`: create, list, describe, alter and delete topics, and their offsets."""

import base64
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.no_effect import warn_of_no_effect
from ottla.cli.output import print_json, print_table
from ottla.cli.settings import parse_settings
from ottla.cli.topic_names import pattern_of, regex_option, topic_names
from ottla.cli.topic_offsets import delete_records, offsets
from ottla.cli.topic_reassign import reassign

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_metadata import PartitionMetadata, TopicMetadata
    from ottla.client.configs import ConfigEntry


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics, and their records."""


@topic.command("create")
@bootstrap_option
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(1), help="How many; the broker's default if not said.")
@click.option("-r", "--replication-factor", type=click.IntRange(1, 32767), help="Copies of each partition.")
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Succeed when a topic exists already, and leave it as it is.")
def create(
    bootstrap: str,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics.

    \b
    Example:
      ottla topic create events --partitions 12 --config retention.ms=86400000
    """
    settings = parse_settings(configs)

    async def action(cluster: "Cluster") -> None:
        from ottla.client.admin import BROKER_DEFAULT, Admin, NewTopic
        from ottla.client.configs import ConfigResource
        from ottla.client.errors import BrokerError
        from ottla.model.error_code import ErrorCode

        admin = Admin(cluster)
        for name in names:
            wanted = NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, settings)
            try:
                created = await admin.create_topic(wanted)
            except BrokerError as error:
                if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise
                click.echo(f"topic {name} exists already")
                continue
            count = created.partitions if created.partitions > 0 else partitions
            click.echo(f"created topic {name}" + (f" with {_count(count, 'partition')}" if count else ""))
            await warn_of_no_effect(admin, ConfigResource.topic(name), settings)

    with_cluster(bootstrap, action)


@topic.command("list")
@bootstrap_option
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("--internal", is_flag=True, help="Show internal topics too.")
@click.option("-q", "--quiet", is_flag=True, help="Names only, one a line.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics.")
def list_topics(bootstrap: str, patterns: tuple[str, ...], internal: bool, quiet: bool, as_json: bool) -> None:
    """List topics, all or those whose whole name matches one of the regular expressions.

    \b
    Examples:
      ottla topic list 'orders-.*'
      ottla topic list --json | jq -r '.[].topic'
    """

    async def action(cluster: "Cluster") -> "list[TopicMetadata]":
        from ottla.client.admin import Admin

        return await Admin(cluster).list_topics()

    expressions = [pattern_of(text) for text in patterns]
    topics = [
        each
        for each in with_cluster(bootstrap, action)
        if (internal or not each.is_internal)
        and (not expressions or any(expression.fullmatch(each.name) for expression in expressions))
    ]
    if as_json:
        print_json([_summary(each) for each in topics])
    elif quiet:
        for each in topics:
            click.echo(each.name)
    else:
        rows = [(each.name, len(each.partitions), _replication(each)) for each in topics]
        print_table(["TOPIC", "PARTITIONS", "REPLICAS"], rows, right=["PARTITIONS", "REPLICAS"])


@topic.command("describe")
@bootstrap_option
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option("--all-configs", is_flag=True, help="Show settings that have their default value too.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics.")
def describe(bootstrap: str, names: tuple[str, ...], is_regex: bool, all_configs: bool, as_json: bool) -> None:
    """Show partitions, leaders, replicas, offsets and settings of topics.

    \b
    Example:
      ottla topic describe events
    """

    async def action(cluster: "Cluster") -> list[dict[str, Any]]:
        wanted = await topic_names(cluster, names, is_regex=is_regex)
        return [await _describe(cluster, name, all_configs) for name in wanted]

    described = with_cluster(bootstrap, action)
    if as_json:
        print_json(described)
        return
    for index, each in enumerate(described):
        if index:
            click.echo()
        _show(each)


@topic.command("alter")
@bootstrap_option
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option("-p", "--partitions", type=click.IntRange(1), help="Raise the number of partitions to this.")
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="Set a topic setting; repeatable.")
@click.option("-d", "--delete-config", "deleted", metavar="KEY", multiple=True, help="Back to the default; repeatable.")
def alter(
    bootstrap: str,
    names: tuple[str, ...],
    is_regex: bool,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Change settings of topics, or give them more partitions.

    More partitions change where keys go: records of a key that come later lie in another partition than those before.

    \b
    Example:
      ottla topic alter events --config cleanup.policy=compact --delete-config retention.ms
    """
    changes: dict[str, str | None] = {**parse_settings(configs), **dict.fromkeys(deleted)}
    if partitions is None and not changes:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")

    async def action(cluster: "Cluster") -> None:
        from ottla.client.admin import Admin
        from ottla.client.configs import ConfigResource

        admin = Admin(cluster)
        for name in await topic_names(cluster, names, is_regex=is_regex):
            if changes:
                await admin.alter_configs(ConfigResource.topic(name), changes)
                click.echo(f"changed {_count(len(changes), 'setting')} of topic {name}")
                await warn_of_no_effect(
                    admin, ConfigResource.topic(name), [key for key, value in changes.items() if value is not None]
                )
            if partitions is not None:
                await admin.create_partitions(name, partitions)
                click.echo(f"topic {name} has {_count(partitions, 'partition')} now")

    with_cluster(bootstrap, action)


@topic.command("delete")
@bootstrap_option
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option("--if-exists", is_flag=True, help="Succeed when a topic does not exist.")
def delete(bootstrap: str, names: tuple[str, ...], is_regex: bool, if_exists: bool) -> None:
    """Delete topics and all their records, without asking.

    \b
    Example:
      ottla topic delete events
    """

    async def action(cluster: "Cluster") -> None:
        from ottla.client.admin import Admin
        from ottla.client.errors import TopicNotFoundError

        for name in await topic_names(cluster, names, is_regex=is_regex):
            try:
                await Admin(cluster).delete_topic(name)
            except TopicNotFoundError:
                if not if_exists:
                    raise
                click.echo(f"topic {name} does not exist")
            else:
                click.echo(f"deleted topic {name}")

    with_cluster(bootstrap, action)


topic.add_command(offsets)
topic.add_command(delete_records)
topic.add_command(reassign)


async def _describe(cluster: "Cluster", name: str, all_configs: bool) -> dict[str, Any]:
    from ottla.client.admin import Admin
    from ottla.client.configs import ConfigResource, ConfigSource
    from ottla.client.offsets import OffsetAt
    from ottla.model.topic_partition import TopicPartition

    admin = Admin(cluster)
    [found] = await admin.describe_topics([name])
    led = [TopicPartition(name, each.partition) for each in found.partitions if each.leader >= 0]
    starts = await admin.list_offsets(dict.fromkeys(led, OffsetAt.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(led, OffsetAt.LATEST))
    configs = [
        each
        for each in await admin.describe_configs(ConfigResource.topic(name))
        if all_configs or each.source == ConfigSource.TOPIC
    ]

    def partition(each: "PartitionMetadata") -> dict[str, Any]:
        place = TopicPartition(name, each.partition)
        return {
            "partition": each.partition,
            "leader": each.leader if each.leader >= 0 else None,
            "replicas": list(each.replicas),
            "isr": list(each.isr),
            "log_start_offset": starts[place].offset if place in starts else None,
            "log_end_offset": ends[place].offset if place in ends else None,
        }

    return _summary(found) | {
        "configs": [_config(each) for each in configs],
        "partitions": [partition(each) for each in found.partitions],
    }


def _config(entry: "ConfigEntry") -> dict[str, Any]:
    return {"name": entry.name, "value": entry.value, "source": entry.source.name.lower()}


def _show(described: dict[str, Any]) -> None:
    click.echo(f"topic {described['topic']}  id {described['topic_id']}")
    for config in described["configs"]:
        source = "" if config["source"] == "topic" else f"  ({config['source']})"
        click.echo(f"  {config['name']}={config['value']}{source}")
    columns = ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END", "RECORDS"]
    rows = [
        (
            each["partition"],
            each["leader"] if each["leader"] is not None else "none",
            each["replicas"],
            each["isr"],
            each["log_start_offset"],
            each["log_end_offset"],
            each["log_end_offset"] - each["log_start_offset"] if each["log_end_offset"] is not None else None,
        )
        for each in described["partitions"]
    ]
    print_table(columns, rows, right=["PARTITION", "LEADER", "START", "END", "RECORDS"])


def _summary(found: "TopicMetadata") -> dict[str, Any]:
    return {
        "topic": found.name,
        "topic_id": _id_text(found.topic_id),
        "internal": found.is_internal,
        "partition_count": len(found.partitions),
        "replication_factor": _replication(found),
    }


def _replication(found: "TopicMetadata") -> int:
    return max((len(each.replicas) for each in found.partitions), default=0)


def _id_text(topic_id: UUID) -> str:
    """As Kafka writes ids: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
