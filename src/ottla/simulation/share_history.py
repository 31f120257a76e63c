"""Checks what members of a share group saw (KIP-932), for simulated and real clusters. Pure.

    delivery     asked ---- came: a record at an offset, and how often it was delivered by then
    settlement   sent ----- answered: OK, it is stored | FAIL, it is not | UNKNOWN, nobody knows

A record that is accepted or rejected with an answer is done: no fetch that is asked for later delivers it. One that is
released with an answer comes with a higher count after that. Times are from one clock that all members share.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ottla.simulation.history import Outcome, Partition

Place = tuple[Partition, int]
"""A partition and an offset."""


class Delivery(Struct, frozen=True):
    """One record that came to a member. `asked_s` is before its fetch was sent."""

    member: str
    place: Place
    value: str
    count: int
    asked_s: float
    came_s: float
    leader_epoch: int = 0
    """Of the leader that delivered it, where that is known: what one that is followed delivers concerns nobody else."""


class Settlement(Struct, frozen=True):
    """The settlement of a record by a member: done (accepted or rejected), or released."""

    member: str
    place: Place
    is_done: bool
    outcome: Outcome
    sent_s: float
    answered_s: float


class ShareHistory:
    """What all members of a group saw, past members included. `deliveries_max` is the limit of the group."""

    def __init__(self, deliveries_max: int) -> None:
        self.deliveries_max = deliveries_max
        self.deliveries: list[Delivery] = []
        self.settlements: list[Settlement] = []

    def unfinished(self, final: Mapping[Partition, Sequence[tuple[int, str]]]) -> list[str]:
        """The records that are to be delivered yet: never delivered, given back, or held by members that are gone."""
        known = {each.place for each in self.settlements if each.is_done and each.outcome is not Outcome.FAIL}
        known |= {each.place for each in self.deliveries if each.count >= self.deliveries_max}
        return [
            _named((partition, offset))
            for partition, log in final.items()
            for offset, _ in log
            if (partition, offset) not in known
        ]

    def check(self, final: Mapping[Partition, Sequence[tuple[int, str]]]) -> list[str]:
        """All violations, each after the name of its rule; `final` has the records of each partition."""
        deliveries: dict[Place, list[Delivery]] = defaultdict(list)
        settlements: dict[Place, list[Settlement]] = defaultdict(list)
        for delivery in self.deliveries:
            deliveries[delivery.place].append(delivery)
        for settlement in self.settlements:
            settlements[settlement.place].append(settlement)
        values = {(partition, offset): value for partition, log in final.items() for offset, value in log}
        found: dict[str, None] = {}
        for place, came in deliveries.items():
            for rule in (
                self._counts(came),
                _contents(came, values.get(place)),
                _done(came, settlements[place]),
                _past_holders(came, settlements[place], self.deliveries_max),
                _stored_counts(came, settlements[place]),
            ):
                found.update(dict.fromkeys(f"{what}: {_named(place)}: {why}" for what, why in rule))
        found.update(dict.fromkeys(f"never delivered: {_named(place)}" for place in values if place not in deliveries))
        return list(found)

    def _counts(self, came: Sequence[Delivery]) -> Iterator[tuple[str, str]]:
        for each in came:
            if not 1 <= each.count <= self.deliveries_max:
                yield "wrong delivery count", f"{each.count} to {each.member}, of at most {self.deliveries_max}"


def _named(place: Place) -> str:
    (topic, partition), offset = place
    return f"{topic}-{partition} offset {offset}"


def _contents(came: Sequence[Delivery], value: str | None) -> Iterator[tuple[str, str]]:
    for each in came:
        if each.value != value:
            yield "delivered what is not there", f"{each.value} to {each.member}, and {value} in the log"


def _done(came: Sequence[Delivery], said: Sequence[Settlement]) -> Iterator[tuple[str, str]]:
    answered = [each for each in said if each.is_done and each.outcome is Outcome.OK]
    first = min(answered, key=lambda each: each.answered_s, default=None)
    if first is None:
        return
    own = [each.leader_epoch for each in came if each.member == first.member and each.came_s <= first.sent_s]
    for each in came:
        if each.asked_s > first.answered_s and each.leader_epoch >= max(own, default=0):
            yield (
                "delivered again",
                f"done for {first.member} at {first.answered_s:.3f}, {each.member} got it at {each.came_s:.3f}",
            )


def _past_holders(
    came: Sequence[Delivery], said: Sequence[Settlement], deliveries_max: int
) -> Iterator[tuple[str, str]]:
    """A member settles what another has got since, unless it may be done: then its word changes nothing."""
    for settled in said:
        if settled.outcome is not Outcome.OK:
            continue
        own = [each for each in came if each.member == settled.member and each.asked_s < settled.sent_s]
        if not own:
            continue
        got = max(own, key=lambda each: each.came_s)
        later = [
            each
            for each in came
            if each.member != settled.member
            and got.came_s < each.asked_s
            and each.came_s < settled.sent_s
            and each.leader_epoch >= got.leader_epoch
        ]
        may_be_done = any(each.count >= deliveries_max for each in came) or any(
            each is not settled
            and each.is_done
            and each.outcome is not Outcome.FAIL
            and each.sent_s < settled.answered_s
            for each in said
        )
        if later and not may_be_done:
            yield (
                "settled by a past holder",
                f"{settled.member} at {settled.sent_s:.3f}, and {later[-1].member} had it since {later[-1].came_s:.3f}",
            )


def _stored_counts(came: Sequence[Delivery], said: Sequence[Settlement]) -> Iterator[tuple[str, str]]:
    """With a release, the count of deliveries is stored."""
    for settled in said:
        if settled.is_done or settled.outcome is not Outcome.OK:
            continue
        own = [each for each in came if each.member == settled.member and each.came_s <= settled.sent_s]
        if not own:
            continue
        got = max(own, key=lambda each: each.came_s)
        count = got.count
        for each in came:
            if each.asked_s > settled.answered_s and each.count <= count and each.leader_epoch >= got.leader_epoch:
                yield (
                    "delivery count lost",
                    f"{count} when {settled.member} released it, {each.count} to {each.member} at {each.came_s:.3f}",
                )
