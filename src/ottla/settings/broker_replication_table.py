"""The broker settings of replication: how followers fetch, and when they are in sync."""

from typing import Final

from ottla.settings.definition import Importance, SettingDefinition, UpdateMode
from ottla.settings.validators import OneOf, Range, Validator
from ottla.settings.value import INT_MAX, LONG_MAX, SettingType

_INT, _LONG, _STRING = SettingType.INT, SettingType.LONG, SettingType.STRING

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _setting(
    name: str,
    kind: SettingType,
    default: str | None,
    validator: Validator,
    documentation: str,
    importance: Importance = Importance.MEDIUM,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
) -> SettingDefinition:
    return SettingDefinition(
        name=name,
        type=kind,
        default=default,
        documentation=documentation,
        validator=validator,
        importance=importance,
        update_mode=update_mode,
    )


def _throttle(role: str, what: str) -> SettingDefinition:
    return _setting(
        f"{role}.replication.throttled.rate",
        _LONG,
        str(LONG_MAX),
        Range(0),
        f"How many bytes a second {what} of the replicas that {role}.replication.throttled.replicas of their topic "
        "names, while they are not in sync. Set it on the brokers while partitions move, and take it away afterwards.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )


REPLICATION_SETTINGS: Final = (
    _throttle("follower", "this broker fetches"),
    _throttle("leader", "this broker gives to followers"),
    _setting(
        "replication.quota.window.num",
        _INT,
        "11",
        Range(1),
        "Over how many windows of time the throttled rates are measured.",
        Importance.LOW,
    ),
    _setting(
        "replication.quota.window.size.seconds",
        _INT,
        "1",
        Range(1),
        "How long one of those windows is.",
        Importance.LOW,
    ),
    _setting(
        "num.replica.fetchers",
        _INT,
        "1",
        Range(1, 64),
        "Over how many connections partitions are fetched from each leader; a partition always comes by the same one.",
        Importance.HIGH,
    ),
    _setting(
        "replica.fetch.backoff.ms",
        _INT,
        "1000",
        Range(0, INT_MAX),
        "How long a partition that could not be fetched waits at most before it is fetched again. The first waits are "
        "shorter.",
    ),
    _setting(
        "replica.fetch.max.bytes",
        _INT,
        "1048576",
        Range(0, INT_MAX),
        "How many bytes of a partition are fetched at a time; a larger batch comes whole.",
    ),
    _setting(
        "replica.fetch.min.bytes",
        _INT,
        "1",
        Range(0, INT_MAX),
        "How many bytes a leader waits for before it answers a follower.",
        Importance.HIGH,
    ),
    _setting(
        "replica.fetch.response.max.bytes",
        _INT,
        "10485760",
        Range(0, INT_MAX),
        "How many bytes are fetched at a time altogether; a larger batch comes whole.",
    ),
    _setting(
        "replica.fetch.wait.max.ms",
        _INT,
        "100",
        Range(0, INT_MAX),
        "How long a leader that has no news keeps a follower waiting. A partition that gets another leader is fetched "
        "from it when what is fetched there already has been answered, so this is a part of how long a failover "
        "takes: Kafka's default is 500. With thousands of partitions it is more by itself, up to that.",
        Importance.HIGH,
    ),
    _setting(
        "replica.lag.time.max.ms",
        _LONG,
        "30000",
        Range(1),
        "A replica that has not had everything its leader has for this long leaves the in-sync replicas.",
        Importance.HIGH,
    ),
    _setting(
        "replica.selector.class",
        _STRING,
        None,
        OneOf((LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
        f"Who is read from: {RACK_AWARE_SELECTOR} sends consumers that say in which rack they are to a replica there, "
        "when there is one; without it all read from the leader. Nothing is loaded: the two are built in.",
    ),
    _setting(
        "replica.socket.timeout.ms",
        _INT,
        "30000",
        Range(1, INT_MAX),
        "How long a follower waits for an answer of the leader before it gives the connection up.",
        Importance.HIGH,
    ),
)
