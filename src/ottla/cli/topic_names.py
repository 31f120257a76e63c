"""Topics by name or, with `--regex`, by regular expressions that match whole names."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.client.admin.admin import Admin

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster

regex_option = click.option(
    "--regex", "is_regex", is_flag=True, help="TOPIC is a regular expression for whole topic names."
)


async def topic_names(cluster: "Cluster", wanted: Sequence[str], *, is_regex: bool) -> list[str]:
    """The names that are meant, each once; internal topics only where they are named.

    Raises click.BadParameter for what is no expression, CommandError for one that matches nothing.
    """
    if not is_regex:
        return list(dict.fromkeys(wanted))
    topics = [each.name for each in await Admin(cluster).list_topics() if not each.is_internal]
    found: dict[str, None] = {}
    for text in wanted:
        matching = [name for name in topics if pattern_of(text).fullmatch(name)]
        if not matching:
            raise CommandError(f"no topic matches {text!r}; `ottla topic list` shows all topics", ExitCode.NOT_FOUND)
        found |= dict.fromkeys(matching)
    return list(found)


def pattern_of(text: str) -> re.Pattern[str]:
    """The expression. Raises click.BadParameter, which is a usage error."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from None
