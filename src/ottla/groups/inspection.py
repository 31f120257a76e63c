"""Groups as administrators see them."""

from collections.abc import Collection

from ottla.groups.answers import DescribeAnswer, GroupListing, MemberDescription
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.model.error_code import ErrorCode

CLASSIC_GROUP_TYPE = "classic"


def describe(group: ClassicGroup | None) -> DescribeAnswer:
    """A group and its members; their subscriptions are shown once the protocol stands."""
    if group is None:
        return DescribeAnswer(ErrorCode.GROUP_ID_NOT_FOUND, state=GroupState.DEAD.value)
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


def listing(group: ClassicGroup) -> GroupListing:
    """A group in a list of groups."""
    return GroupListing(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_GROUP_TYPE)


def matches(group: ClassicGroup, states: Collection[str], types: Collection[str]) -> bool:
    """Whether a group passes the filters of a list; an empty filter lets everything pass, case does not matter."""
    if states and group.state.value.lower() not in {state.strip().lower() for state in states}:
        return False
    return not types or CLASSIC_GROUP_TYPE in {each.strip().lower() for each in types}
