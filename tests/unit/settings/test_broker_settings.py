import pytest

from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import Endpoint
from ottla.settings.properties import parse_properties


def test_without_settings_the_defaults_hold():
    settings = BrokerSettings()
    assert settings["log.flush.before.ack"] is True
    assert settings["auto.create.topics.enable"] is True
    assert settings["offsets.topic.num.partitions"] == 50
    assert settings["advertised.listeners"] is None
    assert settings.listeners.opened == (Endpoint("127.0.0.1", 9092),)
    assert settings.listeners.advertised == {}
    assert not settings.explicit


def test_values_have_their_types():
    settings = BrokerSettings({"num.partitions": "3", "log.flush.before.ack": "false", "log.retention.ms": "-1"})
    assert settings.integer("num.partitions") == 3
    assert settings.boolean("log.flush.before.ack") is False
    assert settings["log.retention.ms"] == -1
    assert settings.is_set("num.partitions")


def test_the_servers_own_name_is_an_alias():
    assert BrokerSettings({"broker.id": "7"}).node_id == 7
    with pytest.raises(InvalidSettingError, match=r"node\.id"):
        BrokerSettings({"broker.id": "7", "node.id": "8"})


def test_kafkas_own_example_file_starts_a_broker_with_warnings():
    text = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
    settings = BrokerSettings(parse_properties(text))
    assert settings.data_directory == "/tmp/kraft-combined-logs"
    assert settings.listeners.opened == (Endpoint("", 9092),)
    assert settings.listeners.advertised == {"PLAINTEXT": Endpoint("localhost", 9092)}
    assert "CONTROLLER://:9093 of listeners is not opened" in settings.warnings[-1]
    passed_over = {warning.split()[0] for warning in settings.warnings if "is ignored" in warning}
    assert {"process.roles", "num.io.threads", "num.network.threads"} <= passed_over
    assert not passed_over & set(settings.explicit)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("sasl.server.callback.handler.class", "org.example.Handler"),
        ("ssl.engine.factory.class", "org.example.Factory"),
        ("authorizer.class.name", "org.example.Authorizer"),
        ("zookeeper.connect", "localhost:2181"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.keystore.key", "inline"),
        ("remote.log.storage.system.enable", "true"),
        ("security.inter.broker.protocol", "SSL"),
    ],
)
def test_a_promise_the_broker_would_not_keep_is_refused_with_the_reason(name, text):
    with pytest.raises(InvalidSettingError, match=name.replace(".", r"\.")) as refused:
        BrokerSettings({name: text})
    assert ": " in refused.value.message


@pytest.mark.parametrize(
    "name", ["remote.log.storage.manager.impl.s3.secret", "sasl.jaas.confg", "zookeeper.ssl.keystore.passwort"]
)
def test_what_a_refused_setting_is_set_to_is_not_said_since_it_may_be_a_secret(name):
    with pytest.raises(InvalidSettingError, match=name.replace(".", r"\.")) as refused:
        BrokerSettings({name: "pencil"})
    assert "pencil" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.trustmanager.algorithm", "PKIX"),
        ("remote.log.storage.system.enable", "false"),
    ],
)
def test_a_setting_that_asks_for_what_happens_anyway_passes(name, text):
    assert len(BrokerSettings({name: text}).warnings) == 1


def test_a_slip_of_the_pen_is_pointed_at():
    with pytest.raises(InvalidSettingError, match=r"did you mean log\.segment\.bytes"):
        BrokerSettings({"log.segments.bytes": "2000000"})


def test_a_bad_value_names_its_setting():
    with pytest.raises(InvalidSettingError, match=r"many for configuration num\.partitions: Not a number of type INT"):
        BrokerSettings({"num.partitions": "many"})


@pytest.mark.parametrize(
    "settings",
    [
        {"log.dirs": "/a,/b,/a"},
        {"log.dirs": ",".join(f"/{number}" for number in range(65))},
        {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
    ],
)
def test_settings_that_cannot_be_kept_together_are_refused(settings):
    with pytest.raises(InvalidSettingError):
        BrokerSettings(settings)


def test_topics_get_their_defaults_from_the_broker():
    defaults = BrokerSettings({"log.retention.hours": "1", "message.max.bytes": "5"}).topic_defaults()
    assert defaults["retention.ms"] == "3600000"
    assert defaults["max.message.bytes"] == "5"


def test_whoever_sets_what_changes_nothing_is_told_so_at_the_start():
    settings = {"compression.lz4.level": "3", "min.insync.replicas": "2", "num.partitions": "3"}
    assert BrokerSettings(settings).warnings == (
        "compression.lz4.level has no effect yet: lz4 is written in one way, the fast one",
    )


def test_the_listener_of_redis_clients_speaks_as_the_map_says():
    given = {
        "redis.listener": ":6379",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REDIS:SASL_SSL",
        "listener.name.redis.ssl.keystore.type": "PEM",
    }
    settings = BrokerSettings(given)
    assert (settings.protocol_of("REDIS"), settings.protocol_of("PLAINTEXT")) == ("SASL_SSL", "PLAINTEXT")
    assert settings.encrypted_listeners == ["REDIS"]
    assert settings.warnings == ()
    without = BrokerSettings({name: text for name, text in given.items() if name != "redis.listener"})
    assert without.encrypted_listeners == []
    assert any("listeners has no REDIS" in each for each in without.warnings)
    assert BrokerSettings({"redis.listener": ":6379"}).protocol_of("REDIS") == "PLAINTEXT"


@pytest.mark.parametrize("credentials", ["ottla", "ottla:", ":secret"])
def test_credentials_of_zookeeper_are_a_user_and_a_password(credentials):
    with pytest.raises(InvalidSettingError, match="USER:PASSWORD"):
        BrokerSettings({"metadata.zookeeper.credentials": credentials})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.ssl.keystore.location"),
        ({"zookeeper.ssl.truststore.location": "ca.pem"}, "zookeeper.ssl.client.enable=true"),
        (
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO",
            },
            "speaks no TLS",
        ),
    ],
)
def test_settings_of_zookeeper_that_would_protect_nothing_are_refused(given, named):
    with pytest.raises(InvalidSettingError, match=named):
        BrokerSettings(given)


def test_kafkas_settings_of_tls_with_zookeeper_are_taken():
    settings = BrokerSettings(
        {
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": "broker.p12",
            "zookeeper.ssl.keystore.password": "changeit",
            "zookeeper.ssl.truststore.location": "ca.pem",
            "zookeeper.ssl.truststore.type": "PEM",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
            "zookeeper.ssl.crl.enable": "false",
            "zookeeper.set.acl": "true",
        }
    )
    assert settings.warnings == ("zookeeper.ssl.crl.enable is ignored: this is already the case",)
