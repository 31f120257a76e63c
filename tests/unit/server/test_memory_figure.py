"""The figure follows the settings it is computed from."""

from typing import Any

import pytest

from ottla.network.config import NetworkConfig
from ottla.server.memory_figure import CONNECTION_BYTES, MIB, lines, memory_figure, total
from ottla.settings.broker_settings import BrokerSettings


def figure(connections_max: int = 1_000, **given: Any) -> int:
    settings = BrokerSettings({name.replace("_", "."): value for name, value in given.items()})
    return total(memory_figure(settings, NetworkConfig.from_settings(settings, connections_max), 1_000))


@pytest.mark.parametrize(
    ("name", "value", "by"),
    [
        ("queued_max_request_bytes", str(356 * MIB), 100 * MIB),
        ("socket_request_max_bytes", str(80 * MIB), -5 * 20 * MIB),
        ("max_connections", "500", -500 * (CONNECTION_BYTES + 16_384)),
        ("partitions_per_broker_max", "50128", MIB),
    ],
)
def test_each_setting_moves_the_figure_by_what_it_allows(name: str, value: str, by: int):
    given: dict[str, Any] = {name: value}
    assert figure(**given) - figure() == by


def test_the_figure_is_told_part_by_part():
    settings = BrokerSettings()
    parts = memory_figure(settings, NetworkConfig.from_settings(settings, 1_000), 1_000)
    told = list(lines(parts))
    assert len(told) == len(parts) + 1
    assert any("max.connections=1000" in line for line in told)
    assert sum(part.size for part in parts) == total(parts) == figure()
    assert f"{total(parts) / MIB:,.0f} MiB  worst-case memory" in told[-1]
