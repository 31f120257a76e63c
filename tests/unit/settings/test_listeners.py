import pytest

from ottla.model.security_protocol import SecurityProtocol
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import Endpoint

NAMED = {
    "listeners": "INTERNAL://10.0.0.5:9092, external://:9094",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:plaintext,UNUSED:SSL",
}


def test_each_listener_is_opened_by_its_name_and_advertises_what_is_said_for_it():
    listeners = BrokerSettings({**NAMED, "advertised.listeners": "EXTERNAL://kafka.example:9094"}).listeners
    assert listeners.opened == (Endpoint("10.0.0.5", 9092, "INTERNAL"), Endpoint("", 9094, "EXTERNAL"))
    assert listeners.advertised == {"EXTERNAL": Endpoint("kafka.example", 9094, "EXTERNAL")}


def test_the_listeners_of_controllers_stay_closed_and_that_is_said():
    settings = BrokerSettings(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [each.listener for each in settings.listeners.opened] == ["PLAINTEXT"]
    assert list(settings.listeners.advertised) == ["PLAINTEXT"]
    assert settings.warnings == (
        "CONTROLLER://:9093 of listeners is not opened: it is for controllers of a KRaft quorum, and Ottla has none",
    )


def test_one_port_may_be_shared_by_an_ipv4_and_an_ipv6_address():
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:9092,B://[::1]:9092"}
    assert (
        len(
            BrokerSettings(
                {**listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"}
            ).listeners.opened
        )
        == 2
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": ""}, "for configuration listeners: it must not be empty"),
        (
            {"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"},
            "listeners has none for clients",
        ),
        ({"listeners": "OTHER://:9093"}, "add OTHER:PLAINTEXT to listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners names PLAINTEXT more than once"),
        ({**NAMED, "listeners": "INTERNAL://a:1,EXTERNAL://b:1"}, "at one port: give each its own"),
        ({**NAMED, "listeners": "INTERNAL://[::1]:1,EXTERNAL://:1"}, "at one port: give each its own"),
        ({"listeners": ",".join(f"L{each}://:0" for each in range(17))}, "listeners has 17 listeners: there may be 16"),
        ({"listeners": "localhost:9092"}, "listeners: 'localhost:9092' is not an address"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "write NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "PLAINTEXT:QUIC"}, "write NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:SSL,a:SSL,PLAINTEXT:PLAINTEXT"}, "names A more than once"),
        ({"advertised.listeners": "PLAINTEXT://:9092"}, "names no host that a client could come to"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "names no host that a client could come to"),
        ({"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "advertised.listeners names PLAINTEXT more"),
        (
            {"advertised.listeners": "OTHER://a:1"},
            "advertised.listeners names OTHER, which listeners does not: PLAINTEXT",
        ),
        ({"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name='OTHER' is none of listeners: PLAINTEXT"),
    ],
)
def test_listeners_that_cannot_be_are_refused_with_what_to_do(settings, said):
    with pytest.raises(InvalidSettingError) as refused:
        BrokerSettings(settings)
    assert said in refused.value.message


def test_brokers_use_the_listener_that_is_named_for_them_by_itself_or_by_how_it_speaks():
    settings = {**NAMED, "listeners": "INTERNAL://:9092,PLAINTEXT://:9093"}
    settings["listener.security.protocol.map"] = "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    assert BrokerSettings(settings).listeners.between_brokers == "INTERNAL"
    by_protocol = BrokerSettings({**settings, "security.inter.broker.protocol": "PLAINTEXT"})
    assert by_protocol.listeners.between_brokers == "PLAINTEXT"
    with pytest.raises(InvalidSettingError, match="give one of them"):
        BrokerSettings(
            {**settings, "security.inter.broker.protocol": "PLAINTEXT", "inter.broker.listener.name": "INTERNAL"}
        )
    with pytest.raises(InvalidSettingError, match=r"security\.inter\.broker\.protocol='SSL' is none of listeners"):
        BrokerSettings({**settings, "security.inter.broker.protocol": "SSL"})


def test_it_is_known_how_each_listener_speaks():
    assert BrokerSettings(NAMED).listeners.protocols == {
        "INTERNAL": SecurityProtocol.PLAINTEXT,
        "EXTERNAL": SecurityProtocol.PLAINTEXT,
    }
