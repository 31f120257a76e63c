"""The kinds of groups, each made when a shard first meets it."""

from ottla.groups.group import GroupType
from ottla.groups.group_kind import GroupContext, GroupKind


def new_kind(group_type: GroupType, context: GroupContext) -> GroupKind:
    """The part of a shard for the groups of a kind.

    A broker without such groups never reads its files: those of consumer groups alone take 30 ms.
    """
    if group_type is GroupType.CONSUMER:
        from ottla.groups.consumer.consumer_groups import ConsumerGroups

        return ConsumerGroups(context)
    if group_type is GroupType.STREAMS:
        from ottla.groups.streams.streams_groups import StreamsGroups

        return StreamsGroups(context)
    if group_type is GroupType.SHARE:
        from ottla.groups.share.share_groups import ShareGroups

        return ShareGroups(context)
    raise AssertionError(f"groups of the kind {group_type.value} have no kind")
