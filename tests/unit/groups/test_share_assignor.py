"""The assignor of share groups: nothing is left out, nobody idles, all have about as much, and little moves."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.share.assignor import Place, assign

TOPIC = UUID(int=1)
OTHER = UUID(int=2)


def places(*partitions: int, topic: UUID = TOPIC) -> frozenset[Place]:
    return frozenset(Place(topic, partition) for partition in partitions)


def test_partitions_are_divided_among_few_members() -> None:
    assert assign({"a": {TOPIC}, "b": {TOPIC}}, {TOPIC: 3}, {}) == {"a": places(0, 2), "b": places(1)}


def test_many_members_share_partitions() -> None:
    members = [f"m{number}" for number in range(5)]
    targets = assign({member: {TOPIC} for member in members}, {TOPIC: 2}, {})
    assert sorted(len(each) for each in targets.values()) == [1] * 5
    sharers = [sum(Place(TOPIC, partition) in each for each in targets.values()) for partition in (0, 1)]
    assert sorted(sharers) == [2, 3]


def test_a_member_that_joins_takes_only_its_part() -> None:
    before = {"a": places(0, 1), "b": places(2, 3)}
    after = assign({"a": {TOPIC}, "b": {TOPIC}, "c": {TOPIC}}, {TOPIC: 4}, before)
    assert sum(len(before[member] & after[member]) for member in before) == 3
    assert len(after["c"]) == 1


MEMBERS = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from([TOPIC, OTHER])), max_size=8)
COUNTS = st.fixed_dictionaries({TOPIC: st.integers(0, 9), OTHER: st.integers(0, 9)})
BEFORE = st.dictionaries(
    st.sampled_from("abcdefghij"),
    st.frozensets(st.builds(Place, st.sampled_from([TOPIC, OTHER]), st.integers(0, 12)), max_size=6),
)


@given(MEMBERS, COUNTS, BEFORE)
def test_whatever_was_before(
    subscriptions: dict[str, set[UUID]], counts: dict[UUID, int], before: dict[str, frozenset[Place]]
) -> None:
    targets = assign(subscriptions, counts, before)
    assert set(targets) == set(subscriptions)
    for topic, count in counts.items():
        members = [member for member, topics in subscriptions.items() if topic in topics]
        shares = {member: sum(place.topic_id == topic for place in targets[member]) for member in subscriptions}
        assert not any(number for member, number in shares.items() if member not in members)
        if not members or not count:
            continue
        sharers = [sum(Place(topic, partition) in targets[each] for each in members) for partition in range(count)]
        assert sum(sharers) == sum(shares.values()) == max(count, len(members))
        assert max(sharers) - min(sharers) <= 1
        assert min(sharers) >= 1
        assert max(shares[each] for each in members) - min(shares[each] for each in members) <= 1
    assert assign(subscriptions, counts, targets) == targets, "what is in balance stays"
