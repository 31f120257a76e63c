"""Connections of NSQ and Redis clients under a quota: who brings too much is not heard, who takes too much rests."""

from collections.abc import Callable

import pytest

from ottla.broker.quota_manager import ClientQuotaManager
from ottla.broker.request_quotas import RequestQuotas
from ottla.broker.traffic_quota import TrafficQuota
from ottla.model.principal import ANONYMOUS, Principal
from ottla.runtime.sampled_rate import Windows
from ottla.runtime.timer import ManualTimer


class Connection:
    """One that is muted until it is told otherwise."""

    def __init__(self) -> None:
        self.is_muted = False
        self.muted_ms: list[int] = []
        self.resume: Callable[[], None] | None = None

    def mute(self, throttle_ms: int) -> None:
        self.is_muted = True
        self.muted_ms.append(throttle_ms)

    def when_unmuted(self, resume: Callable[[], None]) -> None:
        assert self.resume is None
        self.resume = resume

    def unmute(self) -> None:
        self.is_muted = False
        resume, self.resume = self.resume, None
        assert resume is not None
        resume()


class Bound:
    """A client `slow` that has a quota, and the others, that have none."""

    def __init__(self, **quota: float) -> None:
        self.timer = ManualTimer()
        self.timer.clock.advance(1_000_000)
        windows = Windows(11, 1_000)
        manager = ClientQuotaManager(self.timer.clock, windows, windows, 100)
        manager.configure({(("client-id", "slow"),): quota})
        self.now_ns = 0
        self.client = "slow"
        self.resumed = 0
        self.connection = Connection()
        self.quota = TrafficQuota(
            RequestQuotas(manager, lambda: self.now_ns), self.timer, self.connection, self._who, self._resume
        )

    def _who(self) -> tuple[Principal, str]:
        return ANONYMOUS, self.client

    def _resume(self) -> None:
        self.resumed += 1

    def bring(self, *sizes: int, elapsed_ns: int = 0) -> None:
        self.quota.begin()
        for size in sizes:
            self.quota.brings(size)
        self.now_ns += elapsed_ns
        self.quota.end()


def test_who_brings_too_much_is_muted_once_and_goes_on_afterwards() -> None:
    bound = Bound(producer_byte_rate=100.0)
    bound.bring(500, 500)
    assert bound.connection.muted_ms == []
    bound.bring(1_000)
    bound.bring(1_000)  # was here before
    assert bound.quota.is_resting
    assert len(bound.connection.muted_ms) == 2
    bound.connection.unmute()
    assert not bound.quota.is_resting
    assert bound.resumed == 1


def test_the_time_of_the_loop_counts() -> None:
    bound = Bound(request_percentage=1.0)
    bound.bring(elapsed_ns=5_000_000_000)
    assert bound.connection.muted_ms == [1_000]


def test_who_takes_too_much_rests_and_is_heard_all_the_same() -> None:
    bound = Bound(consumer_byte_rate=100.0)
    bound.quota.pushed(1_000)
    assert not bound.quota.is_resting
    bound.quota.pushed(1_000)
    bound.quota.pushed(1_000)
    assert bound.quota.is_resting
    assert bound.connection.muted_ms == []
    bound.timer.advance(60_000)
    assert not bound.quota.is_resting
    assert bound.resumed == 1


@pytest.mark.parametrize("client", ["other", ""])
def test_who_has_no_quota_is_not_counted(client: str) -> None:
    bound = Bound(producer_byte_rate=1.0, consumer_byte_rate=1.0, request_percentage=0.001)
    bound.client = client
    bound.bring(1_000_000, elapsed_ns=1_000_000_000)
    bound.quota.pushed(1_000_000)
    assert not bound.quota.is_resting
    bound.client = "slow"
    bound.bring(1)  # and nothing of before is counted now
    assert bound.connection.muted_ms == []


def test_a_connection_that_ends_while_it_rests_is_not_woken() -> None:
    bound = Bound(consumer_byte_rate=1.0)
    bound.quota.pushed(1_000)
    bound.quota.stop()
    bound.timer.advance(3_600_000)
    assert bound.resumed == 0
