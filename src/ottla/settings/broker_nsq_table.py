"""The broker settings of the NSQ listener; what nsqd takes as a flag has its name with dots."""

from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance
from ottla.settings.endpoint import ConnectAddresses, ListenAddress
from ottla.settings.validators import OneOf, Range
from ottla.settings.value import SettingType

_INT, _STRING = SettingType.INT, SettingType.STRING
_HIGH, _LOW = Importance.HIGH, Importance.LOW

NSQ_SETTINGS: Final = (
    _setting(
        "nsq.auth.http.addresses",
        SettingType.LIST,
        "",
        None,
        _HIGH,
        "The servers that say what an NSQ client may do by the secret of its AUTH (nsqd's --auth-http-address), each "
        "as HOST:PORT, whose path is /auth, or a URL. Empty for no AUTH. Not a Kafka setting.",
    ),
    _setting(
        "nsq.broadcast.address",
        _STRING,
        "",
        None,
        _LOW,
        "The host to which lookup services send NSQ clients. Empty for this host's name. Not a Kafka setting.",
    ),
    _setting(
        "nsq.http.listener",
        _STRING,
        "",
        ListenAddress(),
        _HIGH,
        "The address of nsqd's HTTP API, as HOST:PORT; :PORT for all interfaces. Empty for none. Needs nsq.listener. "
        "Not a Kafka setting.",
    ),
    _setting(
        "nsq.https.listener",
        _STRING,
        "",
        ListenAddress(),
        _HIGH,
        "The address of nsqd's HTTP API with TLS, as HOST:PORT; :PORT for all interfaces. Empty for none. Needs "
        "nsq.listener and nsq.tls.cert. Not a Kafka setting.",
    ),
    _setting(
        "nsq.listener",
        _STRING,
        "",
        ListenAddress(),
        _HIGH,
        "The address on which NSQ clients are served, as HOST:PORT; :PORT for all interfaces. Empty for none. "
        "Not a Kafka setting.",
    ),
    _setting(
        "nsq.lookupd.http.listener",
        _STRING,
        "",
        ListenAddress(),
        _HIGH,
        "The address at which the broker itself answers as nsqlookupd, of all topics of the cluster, as HOST:PORT; "
        ":PORT for all interfaces. Empty for none. Needs nsq.listener. Not a Kafka setting.",
    ),
    _setting(
        "nsq.lookupd.tcp.addresses",
        SettingType.LIST,
        "",
        ConnectAddresses(),
        _HIGH,
        "The NSQ lookup services (nsqlookupd) that this broker registers at, each as HOST:PORT of its TCP listener. "
        "Not a Kafka setting.",
    ),
    _setting(
        "nsq.max.body.size",
        _INT,
        "5242880",
        Range(64),
        _LOW,
        "The maximum size of a command body from an NSQ client, in bytes. Not a Kafka setting.",
    ),
    _setting(
        "nsq.max.heartbeat.interval.ms",
        _INT,
        "60000",
        Range(1_000),
        _LOW,
        "The longest heartbeat interval that an NSQ client may ask for. Not a Kafka setting.",
    ),
    _setting(
        "nsq.max.msg.size",
        _INT,
        "1048576",
        Range(1),
        _LOW,
        "The maximum size of one NSQ message, in bytes. Not a Kafka setting.",
    ),
    _setting(
        "nsq.max.msg.timeout.ms",
        _INT,
        "900000",
        Range(1_000),
        _LOW,
        "The longest message timeout that an NSQ client may ask for, and how long it may hold a message by TOUCH. "
        "Not a Kafka setting.",
    ),
    _setting(
        "nsq.max.rdy.count",
        _INT,
        "2500",
        Range(1, 1_000_000),
        _LOW,
        "The highest RDY count of an NSQ client. Not a Kafka setting.",
    ),
    _setting(
        "nsq.max.req.timeout.ms",
        _INT,
        "3600000",
        Range(0),
        _LOW,
        "The longest delay of REQ. A longer one is shortened. Not a Kafka setting.",
    ),
    _setting(
        "nsq.msg.timeout.ms",
        _INT,
        "60000",
        Range(1_000),
        _LOW,
        "How long an NSQ client may take for a message unless it asks for another time. Then the message is "
        "delivered again. Not a Kafka setting.",
    ),
    _setting(
        "nsq.statsd.address",
        _STRING,
        "",
        ListenAddress(),
        _LOW,
        "The UDP address of a statsd daemon that is sent what nsqd would send, as HOST:PORT. Empty for none. Not a "
        "Kafka setting.",
    ),
    _setting(
        "nsq.statsd.exclude.ephemeral",
        SettingType.BOOLEAN,
        "false",
        None,
        _LOW,
        "Whether statsd is told nothing of ephemeral topics and channels. Not a Kafka setting.",
    ),
    _setting(
        "nsq.statsd.interval.ms",
        _INT,
        "60000",
        Range(1_000),
        _LOW,
        "How often statsd is told. Not a Kafka setting.",
    ),
    _setting(
        "nsq.statsd.prefix",
        _STRING,
        "nsq.%s",
        None,
        _LOW,
        "What names at statsd begin with; %s stands for the broker's host and port. Not a Kafka setting.",
    ),
    _setting(
        "nsq.statsd.udp.packet.size",
        _INT,
        "508",
        Range(64, 65_507),
        _LOW,
        "The maximum size of a packet to statsd, in bytes. Not a Kafka setting.",
    ),
    _setting(
        "nsq.tls.cert",
        _STRING,
        "",
        None,
        _HIGH,
        "A file with the certificate for NSQ clients that ask for TLS, and its chain, in PEM. Empty for no TLS. "
        "Not a Kafka setting.",
    ),
    _setting(
        "nsq.tls.client.auth.policy",
        _STRING,
        "",
        OneOf(("", "require-verify")),
        _LOW,
        "Whether NSQ clients with TLS need a certificate: require-verify for one that nsq.tls.root.ca.file signed. "
        "Not a Kafka setting.",
    ),
    _setting(
        "nsq.tls.key",
        _STRING,
        "",
        None,
        _HIGH,
        "A file with the key of nsq.tls.cert, in PEM. Empty if it is in the same file. Not a Kafka setting.",
    ),
    _setting(
        "nsq.tls.required",
        _STRING,
        "false",
        OneOf(("false", "true", "tcp-https")),
        _LOW,
        "Whether NSQ clients must ask for TLS. With true the HTTP API is served at nsq.https.listener alone, with "
        "tcp-https also without TLS. nsq.tls.client.auth.policy turns false into true. Not a Kafka setting.",
    ),
    _setting(
        "nsq.tls.root.ca.file",
        _STRING,
        "",
        None,
        _LOW,
        "A file with the authorities that sign certificates of NSQ clients, in PEM. Not a Kafka setting.",
    ),
)
