"""`ottla topic`: create, list, describe, alter and delete topics, and their offsets."""

import base64
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from ottla.cli.changes import Changes
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.no_effect import warn_of_no_effect
from ottla.cli.output import print_json, print_table
from ottla.cli.settings import parse_settings
from ottla.cli.topic_names import pattern_of, regex_option, topic_names
from ottla.cli.topic_offsets import delete_records, offsets
from ottla.cli.topic_reassign import reassign
from ottla.client.admin.admin import BROKER_DEFAULT, Admin, NewTopic
from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import BrokerError, TopicNotFoundError
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

_PARTITIONS_MAX = (1 << 31) - 1
"""The protocol's number has 32 bits; what is too many for a cluster, the broker says."""

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster
    from ottla.client.io.cluster_metadata import PartitionMetadata, TopicMetadata


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics, and their records."""


@topic.command("create")
@bootstrap_option
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, _PARTITIONS_MAX),
    help="The number of partitions.  [the broker's default]",
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1, 32767), help="The number of replicas of each partition."
)
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Succeed when a topic already exists; it stays as it is.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics.")
def create(
    bootstrap: str,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create topics.

    \b
    Example:
      ottla topic create events --partitions 12 --config retention.ms=86400000
    """
    settings = parse_settings(configs)

    async def action(cluster: "Cluster") -> None:
        admin = Admin(cluster)
        for name in names:
            wanted = NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, settings)
            try:
                created = await admin.create_topic(wanted)
            except BrokerError as error:
                if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise
                existing = _summary((await admin.describe_topics([name]))[0]) if as_json else {}
                changes.done(f"topic {name} already exists", **existing, created=False)
                continue
            count = created.partitions if created.partitions > 0 else partitions
            replicas = created.replication_factor if created.replication_factor > 0 else replication_factor
            changes.done(
                f"created topic {name}" + (f" with {_count(count, 'partition')}" if count else ""),
                topic=name,
                topic_id=_id_text(created.topic_id),
                internal=False,
                partition_count=count,
                replication_factor=replicas,
                created=True,
            )
            await warn_of_no_effect(admin, ConfigResource.topic(name), settings)

    with Changes(as_json=as_json) as changes:
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
@click.option("-p", "--partitions", type=click.IntRange(1, _PARTITIONS_MAX), help="The new number of partitions.")
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True, help="Set a topic setting; repeatable.")
@click.option(
    "-d", "--delete-config", "deleted", metavar="KEY", multiple=True, help="Reset a setting to its default; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics, with what was changed.")
def alter(
    bootstrap: str,
    names: tuple[str, ...],
    is_regex: bool,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    as_json: bool,
) -> None:
    """Change settings of topics, or add partitions.

    More partitions change the partition of keys: later records of a key may go to another partition than earlier ones.

    \b
    Example:
      ottla topic alter events --config cleanup.policy=compact --delete-config retention.ms
    """
    settings: dict[str, str | None] = {**parse_settings(configs), **dict.fromkeys(deleted)}
    if partitions is None and not settings:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")

    async def action(cluster: "Cluster") -> None:
        admin = Admin(cluster)
        for name in await topic_names(cluster, names, is_regex=is_regex):
            row: dict[str, Any] = {"topic": name, "configs": [], "partition_count": None}
            try:
                if settings:
                    await admin.alter_configs(ConfigResource.topic(name), settings)
                    row["configs"] = [{"name": key, "value": value} for key, value in settings.items()]
                    changes.say(f"changed {_count(len(settings), 'setting')} of topic {name}")
                    await warn_of_no_effect(
                        admin, ConfigResource.topic(name), [key for key, value in settings.items() if value is not None]
                    )
                if partitions is not None:
                    await admin.create_partitions(name, partitions)
                    row["partition_count"] = partitions
                    changes.say(f"topic {name} has {_count(partitions, 'partition')} now")
            finally:
                if row["configs"] or row["partition_count"]:
                    changes.row(**row)

    with Changes(as_json=as_json) as changes:
        with_cluster(bootstrap, action)


@topic.command("delete")
@bootstrap_option
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option("--if-exists", is_flag=True, help="Succeed when a topic does not exist.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics.")
def delete(bootstrap: str, names: tuple[str, ...], is_regex: bool, if_exists: bool, as_json: bool) -> None:
    """Delete topics and all their records, without confirmation.

    \b
    Example:
      ottla topic delete events
    """

    async def action(cluster: "Cluster") -> None:
        for name in await topic_names(cluster, names, is_regex=is_regex):
            try:
                await Admin(cluster).delete_topic(name)
            except TopicNotFoundError:
                if not if_exists:
                    raise
                changes.done(f"topic {name} does not exist", topic=name, deleted=False)
            else:
                changes.done(f"deleted topic {name}", topic=name, deleted=True)

    with Changes(as_json=as_json) as changes:
        with_cluster(bootstrap, action)


topic.add_command(offsets)
topic.add_command(delete_records)
topic.add_command(reassign)


async def _describe(cluster: "Cluster", name: str, all_configs: bool) -> dict[str, Any]:
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
