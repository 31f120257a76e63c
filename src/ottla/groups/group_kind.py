"""The groups of one kind in a shard, for the kinds whose state changes by replay alone."""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from ottla.groups.group import Group
from ottla.groups.group_config import GroupConfig
from ottla.groups.records import KeyedRecord
from ottla.groups.step import MemberTimer, Step
from ottla.metadata.image.image import MetadataImage

MODULES_READ_LATER: Final = (
    "ottla.protocol.coordinator_records.consumer_group",
    "ottla.groups.consumer.consumer_group",
    "ottla.groups.consumer.uniform_assignor",
    "ottla.groups.consumer.range_assignor",
    "ottla.groups.consumer.regexes",
    "ottla.groups.consumer.migration",
    "ottla.groups.consumer.consumer_groups",
)
"""The files of kinds, those below first. A broker reads them a while after its start, each in a turn of its own: so
its first member does not hold up the loop for 30 ms.
"""


class GroupContext(Struct, frozen=True):
    """What the kinds of one shard share: its groups by name, the settings, and the metadata as it is now."""

    groups: dict[str, Group]
    config: GroupConfig
    image: Callable[[], MetadataImage]


class GroupKind(Protocol):
    """What a shard asks of a kind. Its request handlers (heartbeat, describe) are the kind's own.

    `handle_*` methods decide with what they read and write records into the step; only `replay` changes a group. So a
    step that is refused half-way leaves nothing behind when its outcome is thrown away.
    """

    def replay(self, record: KeyedRecord) -> None:
        """Apply a record of this kind; it makes the group that it belongs to, unless it is a tombstone."""
        ...

    def begin_sessions(self, step: Step, group: Group) -> int:
        """The group was loaded: every member has a whole session to be heard of. Returns how many members it has."""
        ...

    def handle_timer(self, step: Step, group: Group, key: MemberTimer) -> None:
        """A timer of a group of this kind is due; the group may have been another when it was set."""
        ...
