"""The settings of a broker that are honoured.

Names, defaults and limits are Kafka's (https://kafka.apache.org/documentation/#brokerconfigs) unless the documentation
of a setting says it is Ottla's own; those put the unit and the limit last.
"""

from typing import Final

from ottla.settings.broker_group_table import GROUP_PROTOCOL_SETTINGS
from ottla.settings.broker_log_table import LOG_SETTINGS
from ottla.settings.broker_nsq_table import NSQ_SETTINGS
from ottla.settings.broker_oauth_table import OAUTH_SETTINGS
from ottla.settings.broker_redis_table import REDIS_SETTINGS
from ottla.settings.broker_replication_table import REPLICATION_SETTINGS
from ottla.settings.broker_sasl_table import SASL_SETTINGS
from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.broker_share_table import SHARE_SETTINGS
from ottla.settings.broker_tls_table import TLS_SETTINGS
from ottla.settings.broker_token_table import TOKEN_SETTINGS
from ottla.settings.broker_transaction_table import TRANSACTION_SETTINGS
from ottla.settings.broker_zookeeper_table import ZOOKEEPER_SETTINGS
from ottla.settings.connection_overrides import ConnectionOverrides
from ottla.settings.definition import Importance, SettingDefinition, SettingTable, UpdateMode, setting_table
from ottla.settings.listeners import DEFAULT_PROTOCOL_MAP
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS
from ottla.settings.validators import Length, NotEmpty, OneOf, Range
from ottla.settings.value import INT_MAX, SettingType

_BOOLEAN, _STRING, _INT, _SHORT, _LONG, _LIST, _PASSWORD = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.SHORT,
    SettingType.LONG,
    SettingType.LIST,
    SettingType.PASSWORD,
)
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


_IDENTITY_AND_LISTENERS: Final = (
    _setting("node.id", _INT, "1", Range(0, INT_MAX), _HIGH, "The id of this broker, unique in its cluster."),
    _setting(
        "broker.rack",
        _STRING,
        None,
        NotEmpty(),
        _MEDIUM,
        "The rack or zone of this broker. Replicas of a partition are spread over racks.",
    ),
    _setting(
        "broker.heartbeat.interval.ms",
        _INT,
        "2000",
        Range(1),
        _HIGH,
        "The interval of heartbeats from a broker to the controller.",
    ),
    _setting(
        "broker.session.timeout.ms",
        _INT,
        "9000",
        Range(1),
        _HIGH,
        "The time without a heartbeat after which the controller fences a broker and elects other leaders. "
        "A broker whose process dies is noticed sooner, by its connection.",
    ),
    _setting(
        "cluster.secret",
        _PASSWORD,
        None,
        Length(16),
        _HIGH,
        "The shared secret that brokers prove to each other; it is never sent. Default: a secret generated "
        "at the first start and kept in the metadata store. Set it when others can read that store: the "
        "same on every broker, in a file, because everyone on the host sees a command line.",
    ),
    _setting(
        "cluster.secret.accepted",
        _PASSWORD,
        None,
        Length(6),
        _MEDIUM,
        "Another secret that brokers may prove to this one while cluster.secret is replaced on one broker after the "
        "other; the word stored stands for the one in the metadata store. Remove it afterwards.",
    ),
    _setting(
        "auto.leader.rebalance.enable",
        _BOOLEAN,
        "true",
        None,
        _HIGH,
        "Whether the controller moves leadership back to the preferred replica once it is in sync.",
    ),
    _setting(
        "leader.imbalance.check.interval.seconds",
        _LONG,
        "300",
        Range(1),
        _HIGH,
        "The interval at which the controller looks for leaderships to move back to preferred replicas.",
    ),
    _setting(
        "listeners",
        _LIST,
        "PLAINTEXT://127.0.0.1:9092",
        NotEmpty(),
        _HIGH,
        "The addresses the broker listens on, as a comma-separated list of NAME://host:port. An empty host "
        "means all interfaces; port 0 means a free port. Listeners can be added while the broker runs, and "
        "removed again.",
        UpdateMode.PER_BROKER,
    ),
    _setting(
        "advertised.listeners",
        _LIST,
        None,
        NotEmpty(),
        _HIGH,
        "The addresses that clients are sent to, as NAME://host:port for each listener. A listener that is "
        "not named here advertises the address that the client connected to.",
    ),
    _setting(
        "controller.listener.names",
        _LIST,
        None,
        None,
        _HIGH,
        "The names of controller listeners. They are not opened: there is no KRaft quorum.",
    ),
    _setting(
        "inter.broker.listener.name",
        _STRING,
        None,
        NotEmpty(),
        _MEDIUM,
        "The listener that brokers use among themselves. Default: the first listener.",
    ),
    _setting(
        "listener.security.protocol.map",
        _LIST,
        DEFAULT_PROTOCOL_MAP,
        None,
        _LOW,
        "The security protocol of each listener, as NAME:PROTOCOL, such as EXTERNAL:SSL.",
        UpdateMode.PER_BROKER,
    ),
    _setting("log.dir", _STRING, "ottla-data", NotEmpty(), _HIGH, "The data directory, used when log.dirs is not set."),
    _setting(
        "log.dirs",
        _LIST,
        None,
        NotEmpty(),
        _HIGH,
        "The data directories, one per disk. The embedded metadata store is in the first.",
    ),
)

_NETWORK: Final = (
    _setting(
        "connections.max.idle.ms",
        _LONG,
        "600000",
        Range(-1),
        _MEDIUM,
        "The time without a request after which a connection is closed; -1 never closes it.",
    ),
    _setting(
        "max.connection.creation.rate",
        _INT,
        str(INT_MAX),
        Range(1),
        _MEDIUM,
        "The maximum number of connections accepted per second, over all listeners; further ones wait.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "max.connections",
        _INT,
        str(INT_MAX),
        Range(1),
        _MEDIUM,
        "The maximum number of open connections; further ones are closed on arrival. The limit on open files caps it.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "max.connections.per.ip",
        _INT,
        str(INT_MAX),
        Range(0),
        _MEDIUM,
        "The maximum number of open connections from one address; further ones are closed on arrival.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "max.connections.per.ip.overrides",
        _STRING,
        "",
        ConnectionOverrides(),
        _MEDIUM,
        "Limits for single addresses that replace max.connections.per.ip, as 127.0.0.1:100,::1:100. Host "
        "names are not resolved.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "queued.max.request.bytes",
        _LONG,
        "268435456",
        Range(4 * 1024 * 1024),
        _MEDIUM,
        "The maximum number of request bytes in memory; beyond it, reading from connections pauses. Kafka's"
        " default is no limit.",
    ),
    _setting(
        "socket.listen.backlog.size",
        _INT,
        "1024",
        Range(1),
        _MEDIUM,
        "The maximum number of connections that wait to be accepted. Kafka's default of 50 overflows when "
        "hundreds of clients connect at once.",
    ),
    _setting(
        "socket.receive.buffer.bytes",
        _INT,
        "-1",
        Range(-1),
        _HIGH,
        "SO_RCVBUF of connections; -1 uses the operating system's automatic size.",
    ),
    _setting(
        "socket.request.max.bytes",
        _INT,
        "104857600",
        Range(1),
        _HIGH,
        "The maximum size of a request; a larger one closes its connection.",
    ),
    _setting(
        "socket.send.buffer.bytes",
        _INT,
        "102400",
        Range(-1),
        _HIGH,
        "SO_SNDBUF of connections; -1 uses the operating system's automatic size, which suits long distances.",
    ),
)

_TOPICS: Final = (
    _setting(
        "auto.create.topics.enable",
        _BOOLEAN,
        "true",
        None,
        _HIGH,
        "Whether a request for a missing topic creates it, if the client allows it too.",
    ),
    _setting(
        "default.replication.factor",
        _INT,
        "1",
        Range(1),
        _MEDIUM,
        "The replication factor of topics created without one.",
    ),
    _setting("delete.topic.enable", _BOOLEAN, "true", None, _HIGH, "Whether topics can be deleted."),
    _setting(
        "max.request.partition.size.limit",
        _INT,
        "2000",
        Range(1),
        _MEDIUM,
        "The maximum number of partitions in one DescribeTopicPartitions response; the client pages through the rest.",
    ),
    _setting(
        "num.partitions",
        _INT,
        "1",
        Range(1),
        _MEDIUM,
        "The number of partitions of topics created without one.",
    ),
    _setting(
        "partitions.per.broker.max",
        _INT,
        "50000",
        Range(1),
        _LOW,
        "The maximum number of replicas on one broker, so that no client exhausts its memory and open "
        "files. Not a Kafka setting.",
    ),
    _setting(
        "partitions.per.request.max",
        _INT,
        "10000",
        Range(1),
        _LOW,
        "The maximum number of partitions that one request creates, which bounds the time of a metadata "
        "change. Not a Kafka setting; Kafka has the same limit built in.",
    ),
)

_FETCH: Final = (
    _setting(
        "fetch.max.bytes",
        _INT,
        "57671680",
        Range(1024),
        _MEDIUM,
        "The maximum size of a fetch response, whatever the client asks for. At least one batch is always returned.",
    ),
    _setting(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        "1000",
        Range(0),
        _MEDIUM,
        "The maximum number of incremental fetch sessions (KIP-227); further clients send complete fetch requests.",
    ),
)

_GROUPS: Final = (
    _setting(
        "group.coordinator.rebalance.protocols",
        _LIST,
        "classic,consumer,streams",
        OneOf(("classic", "consumer", "streams")),
        _MEDIUM,
        "The enabled group protocols; classic is always enabled.",
    ),
    _setting(
        "group.initial.rebalance.delay.ms",
        _INT,
        "0",
        Range(0),
        _MEDIUM,
        "How long a new group waits for more members before its first rebalance. Kafka's default is 3000.",
    ),
    _setting(
        "group.max.session.timeout.ms",
        _INT,
        "1800000",
        Range(1),
        _MEDIUM,
        "The maximum session timeout of members in classic groups.",
    ),
    _setting(
        "group.max.size", _INT, str(INT_MAX), Range(1), _MEDIUM, "The maximum number of members of a classic group."
    ),
    _setting(
        "group.min.session.timeout.ms",
        _INT,
        "6000",
        Range(1),
        _MEDIUM,
        "The minimum session timeout of members in classic groups.",
    ),
    _setting(
        "offset.metadata.max.bytes",
        _INT,
        "4096",
        Range(0),
        _HIGH,
        "The maximum size of the metadata text of an offset commit.",
    ),
    _setting(
        "offsets.load.buffer.size",
        _INT,
        "5242880",
        Range(1),
        _HIGH,
        "The number of bytes read at a time from the offsets topic while groups are loaded.",
    ),
    _setting(
        "offsets.retention.check.interval.ms",
        _LONG,
        "600000",
        Range(1),
        _HIGH,
        "The interval of checks for expired offsets.",
    ),
    _setting(
        "offsets.retention.minutes",
        _INT,
        "10080",
        Range(1),
        _HIGH,
        "How long the offsets of a group without members are kept.",
    ),
    _setting(
        "offsets.topic.num.partitions",
        _INT,
        "50",
        Range(1, 10_000),
        _HIGH,
        "The number of partitions of the offsets topic. Do not change it once the topic exists.",
    ),
    _setting(
        "offsets.topic.replication.factor",
        _SHORT,
        "3",
        Range(1),
        _HIGH,
        "The replication factor of the offsets topic: fewer while there are fewer brokers, more as brokers join.",
    ),
    _setting(
        "offsets.topic.segment.bytes",
        _INT,
        "1048576",
        Range(1),
        _HIGH,
        "The segment size of the offsets topic. The default is small because the active segment is never "
        "compacted; Kafka's is 104857600.",
    ),
)

_QUOTAS: Final = (
    _setting(
        "controller.quota.window.num",
        _INT,
        "11",
        Range(1),
        _LOW,
        "The number of windows of controller_mutation_rate that a client may use up at once.",
    ),
    _setting(
        "controller.quota.window.size.seconds",
        _INT,
        "1",
        Range(1),
        _LOW,
        "The length of a window of controller_mutation_rate.",
    ),
    _setting(
        "quota.window.num",
        _INT,
        "11",
        Range(1, 1_000),
        _LOW,
        "The number of windows over which client quotas measure rates, including the current one.",
    ),
    _setting("quota.window.size.seconds", _INT, "1", Range(1), _LOW, "The length of a window of client quotas."),
    _setting(
        "quota.clients.max",
        _INT,
        "5000",
        Range(1),
        _LOW,
        "The maximum number of users, clients and IPs whose rates are tracked; the ones idle longest are "
        "dropped. Not a Kafka setting.",
    ),
    _setting(
        "telemetry.max.bytes",
        _INT,
        "1048576",
        Range(1),
        _LOW,
        "The maximum size of one push of client metrics (KIP-714).",
    ),
    _setting(
        "telemetry.receiver.enable",
        _BOOLEAN,
        "true",
        None,
        _LOW,
        "Whether the broker accepts client metrics (KIP-714) and keeps them in the topic __client_metrics. "
        "Clients push only while a subscription exists. Not a Kafka setting.",
    ),
)

_DESCRIBED: Final = frozenset(
    {
        "log.flush.scheduler.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.hours",
        "log.roll.jitter.hours",
    }
)
"""Synonyms with another unit, other bounds or a second meaning; they have a definition of their own."""


def _topic_defaults() -> list[SettingDefinition]:
    """The broker settings that give topics their default under another name."""
    definitions = []
    for topic_name, synonyms in BROKER_SYNONYMS.items():
        topic_setting = TOPIC_SETTINGS[topic_name]
        for synonym in synonyms:
            if synonym.name in _DESCRIBED:
                continue
            has_other_unit = len(synonyms) > 1
            definitions.append(
                SettingDefinition(
                    name=synonym.name,
                    type=topic_setting.type,
                    default=None if has_other_unit else topic_setting.default,
                    documentation=f"The default of {topic_name} for topics. {topic_setting.documentation}",
                    no_effect=topic_setting.no_effect,
                    validator=topic_setting.validator,
                    importance=_HIGH,
                    update_mode=UpdateMode.CLUSTER_WIDE,
                )
            )
    return definitions


BROKER_SETTINGS: Final[SettingTable] = setting_table(
    (
        *_IDENTITY_AND_LISTENERS,
        *ZOOKEEPER_SETTINGS,
        *_NETWORK,
        *_TOPICS,
        *LOG_SETTINGS,
        *_FETCH,
        *_GROUPS,
        *GROUP_PROTOCOL_SETTINGS,
        *_QUOTAS,
        *SASL_SETTINGS,
        *OAUTH_SETTINGS,
        *TOKEN_SETTINGS,
        *TLS_SETTINGS,
        *TRANSACTION_SETTINGS,
        *SHARE_SETTINGS,
        *NSQ_SETTINGS,
        *REDIS_SETTINGS,
        *REPLICATION_SETTINGS,
        *_topic_defaults(),
    )
)

ALIASES: Final = {"broker.id": "node.id"}
"""Old names of settings; they are taken for the new ones."""
