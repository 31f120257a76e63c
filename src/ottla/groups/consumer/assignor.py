"""Server-side assignors: who is to have which partitions (KIP-848).

An assignor is a function of who subscribes to what and has what now. It works in slices, as a generator that yields
between them, so that a large group does not hold the event loop; what it returns is for every member, and depends on
nothing but what it was given.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from msgspec import Struct

from ottla.groups.consumer.member import Partitions

SLICE_PARTITIONS: Final = 5_000
"""After about so many partitions looked at, an assignor lets others go first: 2 to 5 ms."""


class Subscriber(Struct, frozen=True):
    """A member, as an assignor knows it: the topics it wants, and what it is to have so far."""

    topic_ids: frozenset[UUID]
    target: Partitions
    instance_id: str | None = None


Subscribers: TypeAlias = Mapping[str, Subscriber]
"""By member id."""

Assignment: TypeAlias = dict[str, dict[UUID, frozenset[int]]]
"""What each member is to have, by its id; members with nothing included."""

Assigning: TypeAlias = Generator[None, None, Assignment]

Assignor: TypeAlias = Callable[[Subscribers, Mapping[UUID, int]], Assigning]
"""Assigns the partitions of topics, of which it is told how many there are, to those who subscribe to them. Every
subscribed topic is among them.
"""
