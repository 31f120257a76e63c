"""The settings of a broker that are honoured.

Names, defaults and limits are Kafka's (https://kafka.apache.org/documentation/#brokerconfigs) unless the documentation
of a setting says it is Ottla's own; those put the unit and the limit last.
"""

from typing import Final

from ottla.settings.broker_group_table import GROUP_PROTOCOL_SETTINGS
from ottla.settings.broker_log_table import LOG_SETTINGS
from ottla.settings.broker_replication_table import REPLICATION_SETTINGS
from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.broker_transaction_table import TRANSACTION_SETTINGS
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
    _setting("node.id", _INT, "1", Range(0, INT_MAX), _HIGH, "The number of this broker, unique in its cluster."),
    _setting("broker.rack", _STRING, None, NotEmpty(), _MEDIUM, "The rack or zone this broker stands in."),
    _setting(
        "broker.heartbeat.interval.ms",
        _INT,
        "2000",
        Range(1),
        _HIGH,
        "How often a broker of a cluster tells the controller that it lives.",
    ),
    _setting(
        "broker.session.timeout.ms",
        _INT,
        "9000",
        Range(1),
        _HIGH,
        "How long a broker of a cluster may be silent before the controller gives its partitions other leaders. One "
        "whose process has died is noticed sooner, by its connection.",
    ),
    _setting(
        "cluster.secret",
        _PASSWORD,
        None,
        Length(16),
        _HIGH,
        "What the brokers of a cluster prove to each other, and never send. Without it they share one that is made at "
        "the first start and kept in the metadata store. Give it where others can read that store, the same to all "
        "brokers, in a file: a command line is seen by everybody on the host.",
    ),
    _setting(
        "auto.leader.rebalance.enable",
        _BOOLEAN,
        "true",
        None,
        _HIGH,
        "Whether the controller gives partitions back to the first of their replicas, when it is there and in sync.",
    ),
    _setting(
        "leader.imbalance.check.interval.seconds",
        _LONG,
        "300",
        Range(1),
        _HIGH,
        "How often the controller looks for leaderships to give back.",
    ),
    _setting(
        "listeners",
        _LIST,
        "PLAINTEXT://127.0.0.1:9092",
        NotEmpty(),
        _HIGH,
        "Where the broker listens, as NAME://host:port, several separated by commas; without a host on every address, "
        "port 0 is a free one. While the broker runs others may be opened beside these, and closed again.",
        UpdateMode.PER_BROKER,
    ),
    _setting(
        "advertised.listeners",
        _LIST,
        None,
        NotEmpty(),
        _HIGH,
        "The address clients are told to come to, as NAME://host:port, for each listener. Who came by a listener that "
        "is not named here is told the address it came by.",
    ),
    _setting(
        "controller.listener.names",
        _LIST,
        None,
        None,
        _HIGH,
        "Which of listeners are the controllers'. They are not opened: there is no KRaft quorum.",
    ),
    _setting(
        "inter.broker.listener.name",
        _STRING,
        None,
        NotEmpty(),
        _MEDIUM,
        "By which of listeners brokers come to each other; the first when none is named.",
    ),
    _setting(
        "listener.security.protocol.map",
        _LIST,
        DEFAULT_PROTOCOL_MAP,
        None,
        _LOW,
        "How each listener speaks, as NAME:PROTOCOL. PLAINTEXT is all that is supported yet.",
        UpdateMode.PER_BROKER,
    ),
    _setting("log.dir", _STRING, "ottla-data", NotEmpty(), _HIGH, "Where data lies, when log.dirs is not set."),
    _setting(
        "log.dirs",
        _LIST,
        None,
        NotEmpty(),
        _HIGH,
        "The directories the logs lie in, one for each disk. The embedded metadata store lies in the first.",
    ),
)

_NETWORK: Final = (
    _setting(
        "connections.max.idle.ms",
        _LONG,
        "600000",
        Range(-1),
        _MEDIUM,
        "A connection without a request for this long is closed; -1 keeps it.",
    ),
    _setting(
        "max.connection.creation.rate",
        _INT,
        str(INT_MAX),
        Range(1),
        _MEDIUM,
        "How many connections a second are accepted, over all listeners; others wait until it is their turn.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "max.connections",
        _INT,
        str(INT_MAX),
        Range(1),
        _MEDIUM,
        "How many connections the broker keeps at a time; more are closed as they come. Never more than the limit on "
        "open files leaves room for beside the data files.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "max.connections.per.ip",
        _INT,
        str(INT_MAX),
        Range(0),
        _MEDIUM,
        "How many connections one address may keep; more are closed as they come.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "max.connections.per.ip.overrides",
        _STRING,
        "",
        ConnectionOverrides(),
        _MEDIUM,
        "Addresses that may keep another number of connections than max.connections.per.ip, as 127.0.0.1:100,::1:100; "
        "names of hosts are not looked up.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "queued.max.request.bytes",
        _LONG,
        "268435456",
        Range(4 * 1024 * 1024),
        _MEDIUM,
        "How many bytes of requests may be in memory; above, connections wait until some are done. Kafka sets no "
        "limit unless it is told to.",
    ),
    _setting(
        "socket.listen.backlog.size",
        _INT,
        "1024",
        Range(1),
        _MEDIUM,
        "How many connections may wait to be accepted; Kafka's 50 overflow when some hundred clients come at once.",
    ),
    _setting(
        "socket.receive.buffer.bytes",
        _INT,
        "-1",
        Range(-1),
        _HIGH,
        "SO_RCVBUF of connections; -1 leaves it to the operating system, which adapts it.",
    ),
    _setting(
        "socket.request.max.bytes",
        _INT,
        "104857600",
        Range(1),
        _HIGH,
        "The largest request that is read; a larger one closes its connection.",
    ),
    _setting(
        "socket.send.buffer.bytes",
        _INT,
        "102400",
        Range(-1),
        _HIGH,
        "SO_SNDBUF of connections; -1 leaves it to the operating system, which adapts it to a long way.",
    ),
)

_TOPICS: Final = (
    _setting(
        "auto.create.topics.enable",
        _BOOLEAN,
        "true",
        None,
        _HIGH,
        "Whether a topic that is asked for and not there is created, when the client allows it too.",
    ),
    _setting(
        "default.replication.factor",
        _INT,
        "1",
        Range(1),
        _MEDIUM,
        "How many replicas a topic has that was created without saying so.",
    ),
    _setting("delete.topic.enable", _BOOLEAN, "true", None, _HIGH, "Whether topics can be deleted."),
    _setting(
        "max.request.partition.size.limit",
        _INT,
        "2000",
        Range(1),
        _MEDIUM,
        "How many partitions one answer to DescribeTopicPartitions holds at most; the client asks on for more.",
    ),
    _setting(
        "num.partitions",
        _INT,
        "1",
        Range(1),
        _MEDIUM,
        "How many partitions a topic has that was created without saying so.",
    ),
    _setting(
        "partitions.per.broker.max",
        _INT,
        "50000",
        Range(1),
        _LOW,
        "How many replicas one broker holds at most, so that one client cannot use up its memory and open files. "
        "Ottla's own.",
    ),
    _setting(
        "partitions.per.request.max",
        _INT,
        "10000",
        Range(1),
        _LOW,
        "How many partitions one request creates at most, which bounds how long a change of the metadata takes. "
        "Ottla's own; the number is the one Kafka has built in.",
    ),
)

_FETCH: Final = (
    _setting(
        "fetch.max.bytes",
        _INT,
        "57671680",
        Range(1024),
        _MEDIUM,
        "The most one answer to Fetch holds, whatever the client asks for; one batch always fits.",
    ),
    _setting(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        "1000",
        Range(0),
        _MEDIUM,
        "How many clients may send only what changed since their last Fetch (KIP-227); others send all of it.",
    ),
)

_GROUPS: Final = (
    _setting(
        "group.coordinator.rebalance.protocols",
        _LIST,
        "classic,consumer,streams",
        OneOf(("classic", "consumer", "streams")),
        _MEDIUM,
        "Which kinds of groups members may join; classic is always among them.",
    ),
    _setting(
        "group.initial.rebalance.delay.ms",
        _INT,
        "0",
        Range(0),
        _MEDIUM,
        "How long an empty group waits for more members after the first has joined, so that it rebalances once; Kafka "
        "waits 3000 ms unless told otherwise.",
    ),
    _setting(
        "group.max.session.timeout.ms", _INT, "1800000", Range(1), _MEDIUM, "The longest session a member may have."
    ),
    _setting("group.max.size", _INT, str(INT_MAX), Range(1), _MEDIUM, "How many members a group has at most."),
    _setting("group.min.session.timeout.ms", _INT, "6000", Range(1), _MEDIUM, "A member's shortest session."),
    _setting(
        "offset.metadata.max.bytes", _INT, "4096", Range(0), _HIGH, "How much text may be stored with an offset commit."
    ),
    _setting(
        "offsets.load.buffer.size",
        _INT,
        "5242880",
        Range(1),
        _HIGH,
        "How much of the topic of committed offsets is read at a time while groups are loaded.",
    ),
    _setting(
        "offsets.retention.check.interval.ms",
        _LONG,
        "600000",
        Range(1),
        _HIGH,
        "How often is looked for committed offsets that expired.",
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
        "How many partitions the topic of committed offsets has; not to be changed once it is there.",
    ),
    _setting(
        "offsets.topic.replication.factor",
        _SHORT,
        "3",
        Range(1),
        _HIGH,
        "How many replicas the topic of committed offsets has; fewer while there are fewer brokers, and more as "
        "brokers join.",
    ),
    _setting(
        "offsets.topic.segment.bytes",
        _INT,
        "1048576",
        Range(1),
        _HIGH,
        "The segment size of the topic of committed offsets; as small as a topic may have it, since the segment that "
        "grows is never compacted. Kafka has 104857600.",
    ),
)

_QUOTAS: Final = (
    _setting(
        "controller.quota.window.num",
        _INT,
        "11",
        Range(1),
        _LOW,
        "How many windows of changes of the metadata a client may use up at once (controller_mutation_rate).",
    ),
    _setting(
        "controller.quota.window.size.seconds",
        _INT,
        "1",
        Range(1),
        _LOW,
        "How long one of these windows is, in seconds.",
    ),
    _setting(
        "quota.window.num",
        _INT,
        "11",
        Range(1, 1_000),
        _LOW,
        "Over how many windows the rates are measured that client quotas bound, the one that is not over included.",
    ),
    _setting("quota.window.size.seconds", _INT, "1", Range(1), _LOW, "How long one of these windows is, in seconds."),
    _setting(
        "quota.clients.max",
        _INT,
        "5000",
        Range(1),
        _LOW,
        "For how many users, clients and addresses that have a quota rates are kept at a time; of more, whoever was "
        "quiet longest is forgotten. Ottla's own.",
    ),
    _setting(
        "telemetry.max.bytes",
        _INT,
        "1048576",
        Range(1),
        _LOW,
        "The largest report of its metrics that a client may push (KIP-714).",
    ),
    _setting(
        "telemetry.receiver.enable",
        _BOOLEAN,
        "true",
        None,
        _LOW,
        "Whether the broker takes metrics of clients (KIP-714) and keeps them in the topic __client_metrics. Clients "
        "are told that they may push any while there is a subscription, and without this never. Ottla's own.",
    ),
)

_DESCRIBED: Final = frozenset(
    {
        "log.flush.scheduler.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.roll.jitter.hours",
    }
)
"""Synonyms with another unit than the topic's setting, or a meaning besides; they have a definition of their own."""


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
                    documentation=f"For topics without a {topic_name} of their own. {topic_setting.documentation}",
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
        *_NETWORK,
        *_TOPICS,
        *LOG_SETTINGS,
        *_FETCH,
        *_GROUPS,
        *GROUP_PROTOCOL_SETTINGS,
        *_QUOTAS,
        *TRANSACTION_SETTINGS,
        *REPLICATION_SETTINGS,
        *_topic_defaults(),
    )
)

ALIASES: Final = {"broker.id": "node.id"}
"""Old names of settings; they are taken for the new ones."""
