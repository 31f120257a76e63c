"""The settings of a share group, as its partitions need them."""

from typing import NamedTuple

from ottla.queues.redelivery import Backoff


class ShareLimits(NamedTuple):
    """The settings of a group, as they are at the moment."""

    lock_ms: int
    deliveries_max: int
    locks_max: int
    read_committed: bool
    backoff: Backoff = Backoff()
    letters_topic: str = ""
    """Where records go that were rejected or delivered too often; none when it is empty."""
    copies_records: bool = False
    """Whether they are copied there, or only what is said of them."""
    is_paused: bool = False
    rate_max: int = 0
    """Records a second that are delivered of a partition; 0 for no limit."""
    is_ordered: bool = False
    """Whether no record is delivered before those of its key that lie before it are done."""
    ahead_max: int = 10_000
    """How many records of a partition are looked at ahead of those that are delivered: that wait for others of their
    key, or in the lanes of priorities.
    """
    weights: tuple[int, ...] = ()
    """Of each priority from 0 on; without any there are no priorities."""
    history_ms: int = 0
    """How long it is remembered what became of records; 0: not at all."""


def limits_of_reader(limits: ShareLimits, lock_ms: int) -> ShareLimits:
    """What holds for a reader that is no member: it says how long it may take. NSQ has no limit of deliveries: the
    group's holds where it has a topic for dead letters. Messages of DPUB come by transactions, so what these did not
    commit is never delivered.
    """
    return limits._replace(
        lock_ms=lock_ms,
        deliveries_max=limits.deliveries_max if limits.letters_topic else 0,
        read_committed=True,
    )
