from typing import NamedTuple

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.flow_control import FlowControl

FLOW = FlowControl(NetworkConfig(in_flight_requests_max=10, out_bytes_max=1_600, out_bytes_total_max=10_000))


class Holder(NamedTuple):
    """A connection, as far as it matters."""

    moved_ms: int
    pending_bytes: int
    is_blocked: bool = True


@pytest.mark.parametrize(
    ("in_flight", "pending_bytes", "total_bytes", "full", "low"),
    [
        (9, 1_600, 1_600, False, False),
        (10, 0, 0, True, False),
        (9, 1_601, 1_601, True, False),
        (5, 800, 800, False, True),
        (6, 0, 0, False, False),
        (5, 801, 801, False, False),
        # Everybody's answers together take too much: a sixteenth for each.
        (0, 100, 10_001, False, False),
        (0, 101, 10_001, True, False),
        (0, 50, 10_001, False, True),
    ],
)
def test_a_connection_stops_at_its_high_water_mark_and_goes_on_at_half(
    in_flight, pending_bytes, total_bytes, full, low
):
    assert FLOW.is_full(in_flight, pending_bytes, total_bytes) is full
    assert FLOW.is_low(in_flight, pending_bytes, total_bytes) is low


def test_those_who_have_not_moved_for_the_longest_time_are_closed_until_the_rest_fits():
    old, older, fresh, idle = Holder(2, 6_000), Holder(1, 6_000), Holder(3, 9_000), Holder(0, 0)
    assert FLOW.to_shed([fresh, old, idle, older], 21_000) == [older, old]
    assert FLOW.to_shed([fresh, old, idle, older], 10_000) == []


def test_those_whom_nothing_was_offered_yet_are_closed_last():
    unasked, fresh, old = Holder(0, 6_000, is_blocked=False), Holder(3, 6_000), Holder(1, 6_000)
    assert FLOW.to_shed([unasked, fresh, old], 18_000) == [old, fresh]
    assert FLOW.to_shed([unasked, fresh, old], 24_000) == [old, fresh, unasked]
