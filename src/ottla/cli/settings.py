"""`KEY=VALUE` on a command line."""

from collections.abc import Iterable

import click


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """The settings, later ones over earlier ones. Raises click.BadParameter, which is a usage error.

    >>> parse_settings(["retention.ms=1000", "cleanup.policy=compact,delete"])
    {'retention.ms': '1000', 'cleanup.policy': 'compact,delete'}
    """
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings
