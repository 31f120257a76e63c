"""`ottla group seek`: a group to an offset of its own in each partition."""

import re
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.group_change import move_group, show_moved, type_option
from ottla.cli.offset_reset import OffsetReset, ResetTo
from ottla.cli.partition_selection import Selection

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster
    from ottla.model.topic_partition import TopicPartition

_INT64_MAX = (1 << 63) - 1
_POSITION = re.compile(r"(\d{1,10})=(\d{1,19}|earliest|latest)", re.ASCII)
_WORDS = {"earliest": OffsetReset(ResetTo.EARLIEST), "latest": OffsetReset(ResetTo.LATEST)}

Positions = dict[tuple[str, int], OffsetReset]
"""Where to, by topic and partition."""


@click.command("seek")
@bootstrap_option
@click.argument("group_id", metavar="GROUP")
@click.argument("places", metavar="TOPIC:PARTITION=OFFSET[,...]...", nargs=-1, required=True)
@type_option
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def seek(
    bootstrap: str, group_id: str, places: tuple[str, ...], wanted_type: str | None, dry_run: bool, as_json: bool
) -> None:
    """Move a group to a given offset in each partition, even while it runs.

    OFFSET is a number, earliest or latest. Otherwise it works like `ottla group reset`.

    \b
    Examples:
      ottla group seek billing events:0=17,1=40 orders:0=latest
      ottla group seek workers jobs:0=120 --type share
    """
    positions = parse_positions(places)
    topics: dict[str, list[int]] = {}
    for topic, number in positions:
        topics.setdefault(topic, []).append(number)
    selections = [Selection(topic, tuple(numbers)) for topic, numbers in topics.items()]

    def wanted(place: "TopicPartition") -> OffsetReset:
        return positions[place.topic, place.partition]

    async def action(cluster: "Cluster") -> list[dict[str, Any]]:
        return await move_group(cluster, group_id, selections, wanted, wanted_type, dry_run=dry_run)

    show_moved(with_cluster(bootstrap, action), as_json=as_json)


def parse_positions(texts: tuple[str, ...]) -> Positions:
    """Read `TOPIC:PARTITION=OFFSET[,PARTITION=OFFSET]...`. Raises click.BadParameter.

    >>> [*parse_positions(("events:0=17,2=latest",))]
    [('events', 0), ('events', 2)]
    """
    found: Positions = {}
    for text in texts:
        topic, _, parts = text.partition(":")
        for part in parts.split(","):
            match = _POSITION.fullmatch(part)
            if not topic or match is None or (match[2].isdecimal() and int(match[2]) > _INT64_MAX):
                raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION=OFFSET, such as events:0=17,1=latest")
            place = topic, int(match[1])
            if place in found:
                raise click.BadParameter(f"{topic}-{place[1]} is given more than once")
            found[place] = _WORDS.get(match[2]) or OffsetReset(ResetTo.OFFSET, int(match[2]))
    return found
