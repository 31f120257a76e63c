"""Which dead letters a command is about: options that its commands share, and what they say."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ottla.cli.failure import CommandError
from ottla.cli.partition_selection import parse_selection
from ottla.cli.start_position import parse_timestamp
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.where import Where, WhereError, parse
from ottla.runtime.clock import SystemClock

F = TypeVar("F", bound=Callable[..., Any])

_OFFSETS = re.compile(r"(\d{1,10}):(\d{1,19})(?:-(\d{1,19})?)?", re.ASCII)
_NO_END = (1 << 63) - 1


where_option = click.option(
    "--where",
    metavar="EXPRESSION",
    help="Only letters for which it is true, such as \"attempts > 3 AND value.customer = 'c17'\".",
)


def filter_options(command: F) -> F:
    """The options of a filter; the command takes them as one argument each, for `filter_of`."""
    for option in reversed(
        [
            click.option("--pipeline", metavar="NAME", help="Only letters of this pipeline."),
            click.option("--step", metavar="NAME", help="Only letters of this step."),
            click.option("--error", metavar="NAME", help="Only letters with this exception or expectation."),
            click.option("--reason", metavar="REGEX", help="Only letters whose reason matches."),
            click.option(
                "--origin", metavar="TOPIC[:PARTITION,...]", help="Only records from this topic or partition."
            ),
            click.option("--since", metavar="TIME", help="Only letters from this time on; -2h for two hours ago."),
            click.option("--until", metavar="TIME", help="Only letters before this time."),
            click.option(
                "--offsets",
                metavar="PARTITION:FIRST[-LAST]",
                multiple=True,
                help="Only letters at these offsets, LAST included; `0:17-`: from 17 on. Repeatable.",
            ),
            where_option,
        ]
    ):
        command = option(command)
    return command


def filter_of(
    *,
    pipeline: str | None,
    step: str | None,
    error: str | None,
    reason: str | None,
    origin: str | None,
    since: str | None,
    until: str | None,
    offsets: tuple[str, ...],
    where: str | None,
) -> "Filter":
    """The filter that the options say. Raises click.BadParameter and CommandError, which are usage errors."""
    clock = SystemClock()
    came_from = parse_selection(origin) if origin is not None else None
    try:
        pattern = re.compile(reason) if reason is not None else None
    except re.error as error_:
        raise click.BadParameter(f"--reason {reason!r} is not a regular expression: {error_}") from None
    return Filter(
        pipeline=pipeline,
        step=step,
        error_class=error,
        reason=pattern,
        origin_topic=came_from.topic if came_from is not None else None,
        origin_partitions=frozenset(came_from.partitions)
        if came_from is not None and came_from.partitions is not None
        else None,
        since_ms=parse_timestamp(since, clock) if since is not None else None,
        until_ms=parse_timestamp(until, clock) if until is not None else None,
        offsets=dict(_offsets(text) for text in offsets),
        where=where_of(where),
    )


def where_of(text: str | None) -> Where | None:
    """The expression of `--where`. Raises click.BadParameter, which says where it is wrong."""
    if text is None:
        return None
    clock = SystemClock()

    def parse_time(written: str) -> int:
        try:
            return parse_timestamp(written, clock)
        except CommandError as error:
            raise ValueError(str(error)) from None

    try:
        return parse(text, clock.now_ms(), parse_time)
    except WhereError as error:
        raise click.BadParameter(f"--where, {error}") from None


def _offsets(text: str) -> tuple[int, tuple[int, int]]:
    match = _OFFSETS.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not PARTITION:FIRST or PARTITION:FIRST-LAST, such as 0:17-20")
    first = int(match[2])
    last = int(match[3]) + 1 if match[3] is not None else _NO_END if "-" in text else first + 1
    if last <= first:
        raise click.BadParameter(f"the last offset of {text!r} is before the first")
    return int(match[1]), (first, last)
