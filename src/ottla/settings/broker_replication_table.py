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
        f"The maximum bytes per second that this broker {what}, for out-of-sync replicas listed in "
        f"{role}.replication.throttled.replicas. Set it while partitions move, and remove it afterwards.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )


REPLICATION_SETTINGS: Final = (
    _throttle("follower", "fetches from leaders"),
    _throttle("leader", "sends to followers"),
    _setting(
        "replication.quota.window.num",
        _INT,
        "11",
        Range(1),
        "The number of windows over which throttled replication rates are measured.",
        Importance.LOW,
    ),
    _setting(
        "replication.quota.window.size.seconds",
        _INT,
        "1",
        Range(1),
        "The length of a window of throttled replication rates.",
        Importance.LOW,
    ),
    _setting(
        "num.replica.fetchers",
        _INT,
        "1",
        Range(1, 64),
        "The number of connections over which a follower fetches from each leader; a partition always uses "
        "the same one.",
        Importance.HIGH,
    ),
    _setting(
        "replica.fetch.backoff.ms",
        _INT,
        "1000",
        Range(0, INT_MAX),
        "The maximum backoff before a partition that failed is fetched again; the first backoffs are shorter.",
    ),
    _setting(
        "replica.fetch.max.bytes",
        _INT,
        "1048576",
        Range(0, INT_MAX),
        "The maximum number of bytes per partition in a follower's fetch; a larger batch is sent whole.",
    ),
    _setting(
        "replica.fetch.min.bytes",
        _INT,
        "1",
        Range(0, INT_MAX),
        "The minimum number of bytes that a leader waits for before it answers a follower.",
        Importance.HIGH,
    ),
    _setting(
        "replica.fetch.response.max.bytes",
        _INT,
        "10485760",
        Range(0, INT_MAX),
        "The maximum size of a response to a follower; a larger batch is sent whole.",
    ),
    _setting(
        "replica.fetch.wait.max.ms",
        _INT,
        "100",
        Range(0, INT_MAX),
        "The maximum time that a leader without new records delays its answer to a follower. It is part of "
        "the failover time: a follower fetches from a new leader once the old fetch has been answered. "
        "Kafka's default is 500. With thousands of partitions the broker raises it by itself, up to 500.",
        Importance.HIGH,
    ),
    _setting(
        "replica.lag.time.max.ms",
        _LONG,
        "30000",
        Range(1),
        "The time without being caught up after which a replica leaves the ISR.",
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
        "How long a follower waits for a response of the leader before it closes the connection.",
        Importance.HIGH,
    ),
)
