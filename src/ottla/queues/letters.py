"""Which records of a share group become dead letters, and why (KIP-1191)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from ottla.queues.dead_letter import REJECTED, TOO_OFTEN
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey
from ottla.replication.partition import Partition

LETTER_RETRY_MS: Final = 1_000
"""How long after a failure letters are tried again that belong to no request."""

_GAP: Final = 0
_REJECT: Final = 3
_ARCHIVED: Final = 4


class Letter(NamedTuple):
    """Records that become letters: first and last offset, how often they were delivered, and why."""

    first: int
    last: int
    deliveries: int
    reason: str


WriteLetters = Callable[[ShareKey, Partition, Sequence[Letter], ShareLimits], Awaitable[None]]
"""Writes letters. Raises ApiError where they cannot be written now and can be later; where they never can be, it
returns, and says so in the log.
"""


def letters_of(
    becomes: Sequence[tuple[int, int, int, int]],
    limits: ShareLimits | None,
    settled: Sequence[tuple[int, int, int]] = (),
) -> tuple[Letter, ...]:
    """The letters for what records become; `settled` says how they were settled, if a member did.

    Records of a gap are none: they do not exist.
    """
    if limits is None or not limits.letters_topic:
        return ()
    found: list[Letter] = []
    for first, last, state, deliveries in becomes:
        if state != _ARCHIVED:
            continue
        at = first
        while at <= last:
            kind, end = next(
                ((kind, min(last, run_last)) for run_first, run_last, kind in settled if run_first <= at <= run_last),
                (None, last),
            )
            if kind != _GAP:
                found.append(Letter(at, end, deliveries, REJECTED if kind == _REJECT else TOO_OFTEN))
            at = end + 1
    return tuple(found)
