from typing import Any

import pytest

from ottla.network.config import NetworkConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("socket_request_max_bytes", 0),
        ("connections_max_idle_ms", 0),
        ("connections_max_idle_ms", -2),
        ("max_connections", 0),
        ("max_connections_per_ip", -1),
        ("socket_receive_buffer_bytes", 0),
        ("queued_max_request_bytes", 1024),
        ("in_flight_requests_max", 0),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(name: str, value: int):
    with pytest.raises(ValueError, match=name):
        NetworkConfig(**dict[str, Any]({name: value}))


def test_never_idle_and_the_systems_own_buffers_are_said_by_minus_one():
    config = NetworkConfig(connections_max_idle_ms=-1, socket_send_buffer_bytes=-1, socket_receive_buffer_bytes=-1)
    assert config.connections_max_idle_ms == -1
