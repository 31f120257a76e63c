"""Saying that a setting that was just made changes nothing."""

from typing import TYPE_CHECKING

import click

from ottla.client.errors import ClientError
from ottla.settings.definition import NO_EFFECT

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigResource


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
