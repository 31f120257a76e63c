"""Listeners that cannot be opened as the settings say are refused before a broker starts."""

from pathlib import Path

import pytest

from ottla.server.listener_addresses import require_distinct
from ottla.server.local_cluster import broker_settings
from ottla.server.other_gateways import require_usable_gateways
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError


def require(given: dict[str, str], count: int = 1) -> None:
    require_distinct([BrokerSettings(each) for each in broker_settings({"log.dirs": "/d", **given}, count)])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"nsq.listener": "h:4150", "redis.listener": "h:4150"},
            "redis.listener and nsq.listener have one port, 4150: give each listener one of its own",
        ),
        (
            {"listeners": "PLAINTEXT://:9092", "redis.listener": "127.0.0.1:9092"},
            "redis.listener and listener PLAINTEXT have one port, 9092",
        ),
    ],
)
def test_two_listeners_at_one_address_are_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSettingError, match=complaint):
        require(given)


def test_the_ports_of_further_brokers_must_be_free_too() -> None:
    given = {"nsq.listener": "h:4150", "nsq.http.listener": "h:4151"}
    require(given)
    with pytest.raises(InvalidSettingError, match=r"of broker 2 and .* of broker 1 have one port, 4151"):
        require(given, 3)


def test_ports_that_are_chosen_later_and_other_hosts_are_fine() -> None:
    require({"nsq.listener": "h:0", "nsq.http.listener": "h:0"}, 3)
    require({"nsq.listener": "h:4150", "redis.listener": "i:4150"})


@pytest.mark.parametrize("name", ["nsq.tls.cert", "nsq.tls.key", "nsq.tls.root.ca.file"])
def test_a_file_for_tls_of_nsq_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").touch()
    given = {"nsq.listener": "h:4150", "nsq.tls.cert": str(tmp_path / "cert.pem"), name: "/absent"}
    with pytest.raises(InvalidSettingError, match=f"^{name}: there is no file /absent"):
        require_usable_gateways(BrokerSettings(given))


def test_the_http_api_without_nsq_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"^nsq\.http\.listener needs nsq\.listener"):
        require_usable_gateways(BrokerSettings({"nsq.http.listener": "h:4151"}))
