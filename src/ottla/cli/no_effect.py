"""Saying that a setting that was just made changes nothing."""

from typing import TYPE_CHECKING, Final

import click

from ottla.client.errors import ClientError
from ottla.settings.definition import NO_EFFECT
from ottla.settings.topic_settings import REDIS_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigResource
    from ottla.client.io.cluster import Cluster

NOT_OF_STREAMS: Final = {"ottla.delivery.order": "none", "ottla.delivery.priority.weights": ""}
"""Settings of groups that change nothing in the groups of streams, with the values by which they are not used."""


async def warn_of_no_effect(admin: "Admin", resource: "ConfigResource", names: "Collection[str]") -> None:
    """Say on stderr which settings that were just made change nothing, as the broker that took them documents them."""
    if not names:
        return
    try:
        entries = await admin.describe_configs(resource, names, with_documentation=True)
    except ClientError:  # they are made; whoever may change settings need not be allowed to read them
        return
    for entry in entries:
        _, says_so, reason = (entry.documentation or "").partition(NO_EFFECT)
        if says_so:
            click.echo(f"warning: {entry.name} has no effect yet: {reason.removesuffix('.')}", err=True)


async def warn_of_streams(cluster: "Cluster", group_id: str, changes: "Mapping[str, str | None]") -> None:
    """Say on stderr which settings of a group that were just made change nothing for the streams of Redis it reads."""
    names = sorted(name for name, unused in NOT_OF_STREAMS.items() if changes.get(name) not in (None, unused))
    if not names:
        return
    from ottla.client.admin.configs import describe_setting_of_topics
    from ottla.client.admin.share_group_admin import ShareGroupAdmin

    try:
        topics = sorted({place.topic for place in await ShareGroupAdmin(cluster).committed(group_id)})
        keys = await describe_setting_of_topics(cluster, topics, REDIS_KEY)
    except ClientError:  # there is no such group yet, or it may not be seen; they are made
        return
    streams = ", ".join(topic for topic in topics if keys.get(topic))
    if streams:
        what = f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} no effect"
        click.echo(f"warning: {what} on streams of Redis, which group {group_id} reads: {streams}", err=True)
