from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.pending_offsets import PendingOffsets
from ottla.groups.records import CommittedOffset
from ottla.model.topic_partition import TopicPartition

GROUPS = ("flights", "trips")
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))


def offset(value: int) -> CommittedOffset:
    return CommittedOffset(value, -1, "", 0)


class NaiveOffsets:
    """What Apache Kafka's rule comes to: each offset knows its place in the log, and a later place wins."""

    def __init__(self) -> None:
        self.place = 0
        self.current: dict[Any, tuple[int, int]] = {}
        self.pending: dict[int, dict[Any, tuple[int, int]]] = {}

    def commit(self, key: Any, value: int) -> None:
        self.place += 1
        self.current[key] = (self.place, value)

    def add(self, producer_id: int, key: Any, value: int) -> None:
        self.place += 1
        self.pending.setdefault(producer_id, {})[key] = (self.place, value)

    def remove(self, key: Any) -> None:
        self.current.pop(key, None)
        for of_producer in self.pending.values():
            of_producer.pop(key, None)

    def end(self, producer_id: int, *, committed: bool) -> None:
        for key, found in self.pending.pop(producer_id, {}).items():
            if committed and (key not in self.current or self.current[key][0] < found[0]):
                self.current[key] = found

    def is_pending(self, key: Any) -> bool:
        return any(key in of_producer for of_producer in self.pending.values())


steps = st.lists(
    st.tuples(
        st.sampled_from(("commit", "add", "add", "remove", "end-commit", "end-abort")),
        st.integers(0, 2),
        st.sampled_from(GROUPS),
        st.sampled_from(PARTITIONS),
    ),
    max_size=40,
)


@given(steps)
def test_pending_offsets_come_to_what_their_places_in_the_log_say(history: list[Any]):
    naive, pending, current = NaiveOffsets(), PendingOffsets(), {}
    for value, (what, producer_id, group_id, partition) in enumerate(history):
        key = (group_id, partition)
        match what:
            case "commit":
                naive.commit(key, value)
                current[key] = value
                pending.overtake(group_id, partition)
            case "add":
                naive.add(producer_id, key, value)
                pending.add(producer_id, group_id, partition, offset(value))
            case "remove":
                naive.remove(key)
                current.pop(key, None)
                pending.discard(group_id, partition)
            case _:
                committed = what == "end-commit"
                naive.end(producer_id, committed=committed)
                for name, where, applied in pending.end(producer_id, committed=committed):
                    current[name, where] = applied.offset
        assert current == {each: found for each, (_, found) in naive.current.items()}
        for name in GROUPS:
            undecided = {where for where in PARTITIONS if naive.is_pending((name, where))}
            assert set(pending.of_group(name)) == undecided
            assert (name in pending) == bool(undecided)
            assert {where for where in PARTITIONS if pending.has(name, where)} == undecided
        assert len(pending) == sum(len(pending.of_group(name)) for name in GROUPS)


def test_nothing_is_left_when_every_transaction_ended():
    pending = PendingOffsets()
    pending.add(1, "flights", PARTITIONS[0], offset(1))
    pending.add(2, "flights", PARTITIONS[0], offset(2))
    assert pending.end(2, committed=True) == [("flights", PARTITIONS[0], offset(2))]
    assert pending.end(1, committed=True) == []
    assert (len(pending), "flights" in pending) == (0, False)
    assert pending.end(1, committed=True) == []
