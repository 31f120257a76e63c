"""What a Redis client may ask for, and how streams are kept; the defaults are Redis' where it has them."""

from typing import Final, Self

from msgspec import Struct

from ottla.settings.broker_settings import BrokerSettings

VERSION: Final = "8.10.1"
"""The version of Redis whose stream commands are served; clients ask for it."""
_MIB: Final = 1024 * 1024


class RedisConfig(Struct, frozen=True):
    """Sizes in bytes."""

    databases: int = 16
    node_bytes_max: int = 4096
    node_entries_max: int = 100
    bulk_bytes_max: int = 64 * _MIB
    command_bytes_max: int = 128 * _MIB
    cache_bytes: int = 32 * _MIB
    replication_factor: int = 1

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """What the settings of a broker say."""
        return cls(
            databases=settings.integer("redis.databases"),
            node_bytes_max=settings.integer("redis.stream.node.max.bytes"),
            node_entries_max=settings.integer("redis.stream.node.max.entries"),
            bulk_bytes_max=settings.integer("redis.proto.max.bulk.len"),
            command_bytes_max=settings.integer("redis.client.query.buffer.limit"),
            cache_bytes=settings.integer("redis.cache.max.bytes"),
            replication_factor=settings.integer("default.replication.factor"),
        )

    @property
    def record_bytes_max(self) -> int:
        """The largest batch that a command makes."""
        return self.command_bytes_max + 32 * _MIB
