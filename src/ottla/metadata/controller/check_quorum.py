"""Whether a controller hears enough of its brokers to decide about them (Raft's check quorum, KAFKA-15489).

The store hears every broker whose session lives. A controller that hears fewer than half of them, itself among them, is
the one that is cut off: another is likely to hear more, and whom it would fence serves well.

    sessions in the store      1 2 3         1 2 3 4       1 2 3 4 5     1 2
    heard by controller 1      1             1 2           1 2           1
                               cut off       in doubt      cut off       in doubt: broker 2 hears no more than it does

A broker that has a session and was never heard does not count: it may still be reading its logs.

No clock of its own: time comes in, in milliseconds of a clock that never goes back.

>>> quorum = CheckQuorum(session_timeout_ms=9_000)
>>> quorum.restart({2: 20, 3: 30}, now_ms=0)
>>> quorum.heard(3, 30, now_ms=2_000)
>>> [quorum.is_lost({1: 10, 2: 20, 3: 30}, own_id=1, now_ms=now_ms) for now_ms in (6_500, 6_501)]
[False, True]
"""

from collections.abc import Mapping
from typing import NamedTuple


def is_cut_off(heard_count: int, present_count: int) -> bool:
    """Whether who hears so many of so many, itself among both, is likely to hear fewer than others do."""
    return 2 * heard_count < present_count


class _Heard(NamedTuple):
    broker_epoch: int
    at_ms: int


class CheckQuorum:
    """The other brokers that this controller heard since it was elected, or found serving then."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._silence_max_ms = session_timeout_ms // 2
        """Those who are cut off together fall silent within a heartbeat's interval: so the first of them is not fenced
        before the last one is missed."""
        self._brokers: dict[int, _Heard] = {}

    def __len__(self) -> int:
        """How many others there are that count."""
        return len(self._brokers)

    def restart(self, broker_epochs: Mapping[int, int], now_ms: int) -> None:
        """Count these as heard now, by id, and no others: who decides is new, or stood still itself."""
        self._brokers = {broker_id: _Heard(epoch, now_ms) for broker_id, epoch in broker_epochs.items()}

    def stood_still(self, now_ms: int) -> None:
        """This controller heard nobody because it stood still: count all as heard now."""
        self.restart({broker_id: heard.broker_epoch for broker_id, heard in self._brokers.items()}, now_ms)

    def heard(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker said that it lives, whether or not it serves."""
        self._brokers[broker_id] = _Heard(broker_epoch, now_ms)

    def is_lost(self, sessions: Mapping[int, int], *, own_id: int, now_ms: int) -> bool:
        """Whether fewer than half are heard of those that live, by the broker epochs of their `sessions`."""
        return is_cut_off(*self._count(sessions, own_id, now_ms))

    def is_there(self, sessions: Mapping[int, int], *, own_id: int, now_ms: int) -> bool:
        """Whether half of those that live are heard, and not this one alone. So it is for a while after `restart`."""
        heard_count, present_count = self._count(sessions, own_id, now_ms)
        return heard_count > 1 and not is_cut_off(heard_count, present_count)

    def _count(self, sessions: Mapping[int, int], own_id: int, now_ms: int) -> tuple[int, int]:
        """How many are heard, and how many live, this one among both."""
        present = {
            broker_id: heard
            for broker_id, heard in self._brokers.items()
            if broker_id != own_id and sessions.get(broker_id) == heard.broker_epoch
        }
        heard_count = sum(now_ms - heard.at_ms <= self._silence_max_ms for heard in present.values())
        return 1 + heard_count, 1 + len(present)
