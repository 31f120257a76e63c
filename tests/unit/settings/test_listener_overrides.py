import pytest

from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.listener_overrides import ListenerOverride, parse_override, value_for_listener

TWO = {
    "listeners": "INTERNAL://:9092,EXTERNAL://:9094",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
}


def test_a_listener_has_its_own_value_or_that_of_all():
    settings = BrokerSettings(
        {**TWO, "ssl.keystore.type": "PEM", "listener.name.external.ssl.keystore.type": " PKCS12 "}
    )
    assert settings.for_listener("EXTERNAL", "ssl.keystore.type") == "PKCS12"
    assert settings.for_listener("INTERNAL", "ssl.keystore.type") == "PEM"
    assert settings.for_listener("EXTERNAL", "ssl.client.auth") == "none"
    assert settings.explicit["listener.name.external.ssl.keystore.type"] == "PKCS12"
    assert settings.warnings == ()


def test_a_mechanism_has_its_own_value_that_of_its_listener_or_that_of_all():
    values = {"sasl.a": 1, "listener.name.x.sasl.a": 2, "listener.name.x.plain.sasl.a": 3}
    assert value_for_listener(values, "X", "sasl.a", "PLAIN") == 3
    assert value_for_listener(values, "X", "sasl.a", "GSSAPI") == 2
    assert value_for_listener(values, "Y", "sasl.a", "PLAIN") == 1
    assert parse_override("listener.name.x.scram-sha-512.sasl.jaas.config") == ListenerOverride(
        "X", "scram-sha-512", "sasl.jaas.config"
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("listener.name.External.ssl.keystore.type", "PEM", "written in lower case"),
        ("listener.name.external.num.partitions", "3", "cannot be set for one listener"),
        ("listener.name.external.ssl.keystore.type", "P12", "listener.name.external.ssl.keystore.type: it must be one"),
        ("listener.name.external.ssl.keystore.typ", "PEM", "Unknown broker config name"),
        ("listener.name.", "PEM", "cannot be set for one listener"),
    ],
)
def test_what_cannot_be_set_for_a_listener_is_refused_by_name(name, value, said):
    with pytest.raises(InvalidSettingError, match=said):
        BrokerSettings({**TWO, name: value})


def test_a_setting_for_a_listener_that_is_not_there_is_said_to_be_ignored():
    settings = BrokerSettings({**TWO, "listener.name.other.ssl.keystore.type": "PEM"})
    assert settings.warnings == ("listener.name.other.ssl.keystore.type is ignored: listeners has no OTHER",)
