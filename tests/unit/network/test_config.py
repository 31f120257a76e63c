from typing import Any

import pytest

from ottla.network.config import NetworkConfig
from ottla.settings.broker_settings import BrokerSettings


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


def test_without_settings_the_defaults_are_those_of_the_table():
    assert NetworkConfig.from_settings(BrokerSettings(), 2**31 - 1) == NetworkConfig()


def test_the_section_has_what_the_settings_say():
    settings = {
        "socket.request.max.bytes": "1000",
        "connections.max.idle.ms": "-1",
        "max.connections": "7",
        "max.connections.per.ip": "5",
        "max.connections.per.ip.overrides": "::1:6",
    }
    assert NetworkConfig.from_settings(BrokerSettings(settings), 100) == NetworkConfig(
        socket_request_max_bytes=1000,
        connections_max_idle_ms=-1,
        max_connections=7,
        max_connections_per_ip=5,
        max_connections_per_ip_overrides={"::1": 6},
    )
