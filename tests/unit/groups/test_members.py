from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.members import GroupMembers, Member, MemberProtocol


def member(member_id: str, *protocols: str, instance_id: str | None = None, rebalance_ms: int = 1_000) -> Member:
    offered = tuple(MemberProtocol(name, name.encode()) for name in protocols or ("range",))
    return Member(member_id, instance_id, "client", "/host", rebalance_ms, 1_000, "consumer", offered)


def offers(*names: str) -> tuple[MemberProtocol, ...]:
    return tuple(MemberProtocol(name, b"") for name in names)


def test_everybody_has_joined_when_all_wait_and_no_id_is_pending():
    roster = GroupMembers()
    a, b = member("a"), member("b")
    roster.add(a)
    roster.add(b)
    roster.park_join(a, lambda answer: None)
    assert not roster.everybody_joined
    roster.park_join(b, lambda answer: None)
    assert roster.everybody_joined
    roster.add_pending("c")
    assert not roster.everybody_joined
    roster.discard_pending("c")
    assert roster.everybody_joined


def test_a_parked_request_that_is_replaced_is_handed_back():
    roster, first, second = GroupMembers(), lambda answer: None, lambda answer: None
    a = member("a")
    roster.add(a)
    assert roster.park_join(a, first) is None
    assert roster.park_join(a, second) is first
    assert roster.joined_count == 1
    assert roster.unpark_join(a) is second
    assert roster.unpark_join(a) is None
    assert roster.joined_count == 0


def test_a_member_that_leaves_takes_its_parked_request_out_of_the_count():
    roster = GroupMembers()
    a = member("a")
    roster.add(a)
    roster.park_join(a, lambda answer: None)
    roster.remove("a")
    assert roster.joined_count == 0
    assert len(roster) == 0


def test_a_pending_id_that_joins_is_pending_no_longer():
    roster = GroupMembers()
    roster.add_pending("a")
    assert roster.is_pending("a")
    roster.add(member("a"))
    assert roster.pending == ()


def test_static_members_are_found_by_their_instance_until_they_leave():
    roster = GroupMembers()
    roster.add(member("a", instance_id="i"))
    assert roster.static_member_id("i") == "a"
    roster.remove("a")
    assert roster.static_member_id("i") is None


def test_the_protocol_most_members_prefer_is_chosen_among_those_all_offer():
    roster = GroupMembers()
    roster.add(member("a", "mine", "range", "sticky"))
    roster.add(member("b", "sticky", "range"))
    roster.add(member("c", "sticky", "range"))
    assert roster.select_protocol() == "sticky"
    roster.set_protocols(roster["c"], offers("range"))
    assert roster.select_protocol() == "range"


def test_a_member_that_offers_a_protocol_twice_counts_once():
    roster = GroupMembers()
    roster.add(member("a", "range", "range"))
    roster.add(member("b", "sticky"))
    assert not roster.supports_any(offers("range"))


def test_an_empty_group_supports_anything():
    assert GroupMembers().supports_any(offers("range"))


def test_a_rebalance_waits_as_long_as_the_most_patient_member_asks():
    roster = GroupMembers()
    assert roster.rebalance_timeout_ms() == 0
    roster.add(member("a", rebalance_ms=5_000))
    roster.add(member("b", rebalance_ms=9_000))
    assert roster.rebalance_timeout_ms() == 9_000


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.sampled_from("xyz"), min_size=1)), max_size=30))
def test_what_all_members_offer_is_what_counting_says(changes: list[tuple[str, set[str]]]):
    roster = GroupMembers()
    offered: dict[str, set[str]] = {}
    for member_id, names in changes:
        if offered.get(member_id) == names:
            roster.remove(member_id)
            del offered[member_id]
        elif member_id in offered:
            roster.set_protocols(roster[member_id], offers(*names))
            offered[member_id] = names
        else:
            roster.add(member(member_id, *names))
            offered[member_id] = names
        for name in "xyz":
            assert roster.supports_any(offers(name)) == all(name in each for each in offered.values())
