"""How `ottla group describe` shows groups: what they are behind, who reads, what is in flight."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.output import print_table

if TYPE_CHECKING:
    from ottla.client.admin.group_admin import GroupDescription, PartitionLag
    from ottla.client.admin.group_members import GroupMember
    from ottla.client.admin.share_group_admin import ShareGroupDescription, SharePartitionState

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def age(milliseconds: int | None) -> str | None:
    """A length of time in its two largest units.

    >>> age(93_784_005), age(1_700), age(12)
    ('1d2h', '1.7s', '12ms')
    """
    if milliseconds is None:
        return None
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f}s"
    parts: list[str] = []
    for size, unit in _UNITS:
        count, milliseconds = divmod(milliseconds, size)
        if parts or count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def show_consumer_group(described: "GroupDescription") -> None:
    """A line about the group, then its partitions."""
    assignor = f"  assignor {described.assignor}" if described.assignor else ""
    members = _members(described.members)
    click.echo(
        f"group {described.group_id}  {described.group_type}  {described.state}  {members}{assignor}"
        f"  coordinator {described.coordinator}  lag {described.total_lag}"
    )
    columns = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "MEMBER", "CLIENT", "HOST"]
    rows = [
        (
            each.topic_partition.topic,
            each.topic_partition.partition,
            each.committed,
            each.log_end_offset,
            each.lag,
            age(each.lag_ms),
            each.member.member_id if each.member is not None else None,
            each.member.client_id if each.member is not None else None,
            each.member.host if each.member is not None else None,
        )
        for each in described.partitions
    ]
    print_table(columns, rows, right=["PARTITION", "COMMITTED", "END", "LAG", "BEHIND"])


def consumer_group_document(described: "GroupDescription") -> dict[str, Any]:
    """The same for a program."""
    return {
        "group": described.group_id,
        "state": described.state,
        "type": described.group_type,
        "protocol_type": described.protocol_type,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "lag": described.total_lag,
        "members": [_member_document(member) for member in described.members],
        "partitions": [_lag_document(each) for each in described.partitions],
    }


def show_share_group(described: "ShareGroupDescription") -> None:
    """A line about the group, then its partitions, then its members."""
    click.echo(
        f"group {described.group_id}  share  {described.state}  {_members(described.members)}"
        f"  assignor {described.assignor}  coordinator {described.coordinator}  lag {described.total_lag}"
    )
    columns = ["TOPIC", "PARTITION", "START", "END", "LAG", "BEHIND", "IN-FLIGHT", "RETURNED", "WAITING"]
    columns += ["REDELIVERED", "ARCHIVED", "OLDEST", "DELIVERIES", "HELD-BY"]
    print_table(columns, [_share_row(each) for each in described.partitions], right=columns[1:-1])
    if described.members:
        click.echo()
        rows = [
            (
                each.member_id,
                each.client_id,
                each.host,
                " ".join(f"{topic}-{index}" for topic, index in each.assignment),
            )
            for each in described.members
        ]
        print_table(["MEMBER", "CLIENT", "HOST", "PARTITIONS"], rows)


def share_group_document(described: "ShareGroupDescription") -> dict[str, Any]:
    """The same for a program; what no leader tells is null."""
    return {
        "group": described.group_id,
        "state": described.state,
        "type": "share",
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "lag": described.total_lag,
        "members": [_member_document(member) for member in described.members],
        "partitions": [_share_document(each) for each in described.partitions],
    }


def _share_row(each: "SharePartitionState") -> tuple[object, ...]:
    told, oldest = each.deliveries, each.oldest
    return (
        each.topic_partition.topic,
        each.topic_partition.partition,
        each.start_offset,
        each.log_end_offset,
        each.lag,
        age(each.lag_ms),
        *(
            (None,) * 5
            if told is None
            else (told.in_flight, told.returned, told.waiting, told.redelivered, told.archived)
        ),
        oldest.offset if oldest is not None else None,
        oldest.deliveries if oldest is not None else None,
        oldest.holder.member_id if oldest is not None and oldest.holder is not None else None,
    )


def _share_document(each: "SharePartitionState") -> dict[str, Any]:
    told, oldest = each.deliveries, each.oldest
    names = ("in_flight", "waiting", "returned", "redelivered", "deliveries_most", "accepted", "archived")
    return {
        "topic": each.topic_partition.topic,
        "partition": each.topic_partition.partition,
        "start_offset": each.start_offset,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
        "lag_ms": each.lag_ms,
        **{name: None if told is None else getattr(told, name) for name in names},
        "oldest": None
        if oldest is None
        else {
            "offset": oldest.offset,
            "deliveries": oldest.deliveries,
            "member_id": None if oldest.holder is None else oldest.holder.member_id,
        },
    }


def _member_document(member: "GroupMember") -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "protocol": member.protocol,
        "epoch": member.epoch if member.epoch >= 0 else None,
        "partitions": [list(each) for each in member.assignment],
    }


def _lag_document(each: "PartitionLag") -> dict[str, Any]:
    return {
        "topic": each.topic_partition.topic,
        "partition": each.topic_partition.partition,
        "committed_offset": each.committed,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
        "lag_ms": each.lag_ms,
        "metadata": each.metadata,
        "member_id": each.member.member_id if each.member is not None else None,
    }


def _members(members: "tuple[GroupMember, ...]") -> str:
    return f"{len(members)} member{'s' * (len(members) != 1)}"
