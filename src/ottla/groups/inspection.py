"""Groups as administrators see them."""

from collections.abc import Collection

from ottla.groups.answers import DescribeAnswer, GroupListing, MemberDescription
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group import Group
from ottla.groups.group_config import GROUP_ID_BYTES_MAX
from ottla.groups.group_state import GroupState
from ottla.model.error_code import ErrorCode


def describe(group_id: str, group: Group | None) -> DescribeAnswer:
    """A classic group and its members; their subscriptions are shown once the protocol stands."""
    if group is None:
        return DescribeAnswer(
            ErrorCode.GROUP_ID_NOT_FOUND,
            state=GroupState.DEAD.value,
            message=f"Group {group_id[:GROUP_ID_BYTES_MAX]} not found.",
        )
    if not isinstance(group, ClassicGroup):
        message = f"Group {group_id} is not a classic group."
        return DescribeAnswer(ErrorCode.GROUP_ID_NOT_FOUND, state=GroupState.DEAD.value, message=message)
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribeAnswer(
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=protocol_name or "",
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(protocol_name) if protocol_name is not None else b"",
                assignment=member.assignment,
            )
            for member in group.members
        ),
    )


def listing(group: Group) -> GroupListing:
    """A group in a list of groups."""
    return GroupListing(group.group_id, group.protocol_type or "", group.state_name, group.group_type.value)


def matches(group: Group, states: Collection[str], types: Collection[str]) -> bool:
    """Whether a group passes the filters of a list; an empty filter lets everything pass, case does not matter."""
    if states and group.state_name.lower() not in {state.strip().lower() for state in states}:
        return False
    return not types or group.group_type.value in {each.strip().lower() for each in types}
