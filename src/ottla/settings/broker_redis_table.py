"""The broker settings of the Redis listener; what Redis has a parameter for has its name with dots."""

from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance
from ottla.settings.endpoint import ListenAddress
from ottla.settings.validators import Range
from ottla.settings.value import INT_MAX, SettingType

_INT, _STRING = SettingType.INT, SettingType.STRING
_HIGH, _LOW = Importance.HIGH, Importance.LOW

REDIS_SETTINGS: Final = (
    _setting(
        "redis.cache.max.bytes",
        _INT,
        "33554432",
        Range(1_048_576, INT_MAX),
        _LOW,
        "The memory for entries of streams that Redis clients read and add, in bytes. Not a Kafka setting.",
    ),
    _setting(
        "redis.client.query.buffer.limit",
        _INT,
        "134217728",
        Range(1_048_576, 1_073_741_824),
        _LOW,
        "The maximum size of all arguments of a command from a Redis client together, in bytes; each counts 48 more. "
        "Not a Kafka setting.",
    ),
    _setting(
        "redis.databases", _INT, "16", Range(1, 1_024), _LOW, "The number of Redis databases. Not a Kafka setting."
    ),
    _setting(
        "redis.listener",
        _STRING,
        "",
        ListenAddress(),
        _HIGH,
        "The address on which Redis clients are served, as HOST:PORT; :PORT for all interfaces. Empty for none. "
        "listener.security.protocol.map may say how it speaks, by the name REDIS. Not a Kafka setting.",
    ),
    _setting(
        "redis.proto.max.bulk.len",
        _INT,
        "67108864",
        Range(1_048_576, 536_870_912),
        _LOW,
        "The maximum size of one argument of a command from a Redis client, in bytes. Not a Kafka setting.",
    ),
    _setting(
        "redis.stream.node.max.bytes",
        _INT,
        "4096",
        Range(0, INT_MAX),
        _LOW,
        "The size of the nodes that approximate trimming of streams removes as a whole, in bytes; 0 for no limit. "
        "Not a Kafka setting.",
    ),
    _setting(
        "redis.stream.node.max.entries",
        _INT,
        "100",
        Range(0, INT_MAX),
        _LOW,
        "The maximum number of entries in a node of a stream; 0 for no limit. Not a Kafka setting.",
    ),
)
