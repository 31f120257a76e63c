"""The records of the metadata log: every fact the cluster agrees on, one record for each change.

A record is a compact JSON array: its kind, the version of its layout, then its fields in the order of the class.

    ["topic",0,"orders","h1QbnLqvTVmFl8LQmDZyzg",[[1,0,[1],[1],0]]]

Topic ids are written as Kafka prints them: 16 bytes in URL-safe base64 without padding. A later layout gets the next
version; `decode_record` keeps reading the old ones. An unknown kind or version is refused, because a broker that skips
a fact would disagree with the others.
"""

import base64
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from msgspec import Struct

from ottla.model.errors import InvalidInputError
from ottla.model.quota_entity import QuotaEntity


class PartitionState(NamedTuple):
    """Who holds a partition. The leader epoch rises with each leader, the partition epoch with each change."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int


class TopicRecord(Struct, frozen=True):
    """A topic came to be, with all its partitions."""

    KIND: ClassVar[str] = "topic"
    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]


class PartitionsAddedRecord(Struct, frozen=True):
    """A topic got more partitions; they follow the ones it had."""

    KIND: ClassVar[str] = "partitions-added"
    topic_id: UUID
    partitions: tuple[PartitionState, ...]


class PartitionChangedRecord(Struct, frozen=True):
    """A partition has another leader, other replicas or another in-sync set."""

    KIND: ClassVar[str] = "partition-changed"
    topic_id: UUID
    index: int
    state: PartitionState


class TopicRemovedRecord(Struct, frozen=True):
    """A topic is gone, and its settings with it."""

    KIND: ClassVar[str] = "topic-removed"
    topic_id: UUID


class ConfigRecord(Struct, frozen=True):
    """A setting of a resource has a new value, or, with None, no value of its own any more."""

    KIND: ClassVar[str] = "config"
    resource_type: int
    resource_name: str
    key: str
    value: str | None


class BrokerRegisteredRecord(Struct, frozen=True):
    """A broker is there, with the address it tells clients; a host of None is the one each client came by."""

    KIND: ClassVar[str] = "broker"
    broker_id: int
    broker_epoch: int
    host: str | None
    port: int
    rack: str | None


class BrokerRemovedRecord(Struct, frozen=True):
    """A broker is gone: its session ended."""

    KIND: ClassVar[str] = "broker-removed"
    broker_id: int


class ControllerRecord(Struct, frozen=True):
    """A broker became the controller; what an older epoch appends later is refused by the store."""

    KIND: ClassVar[str] = "controller"
    broker_id: int
    controller_epoch: int


class ProducerIdsRecord(Struct, frozen=True):
    """Producer ids below `next_producer_id` are given out or may be; none of them is ever given again."""

    KIND: ClassVar[str] = "producer-ids"
    next_producer_id: int


class FeatureLevelRecord(Struct, frozen=True):
    """A level of a feature was finalized (`ottla.metadata.features`); 0 means that it is not used."""

    KIND: ClassVar[str] = "feature-level"
    name: str
    level: int


class ClientQuotaRecord(Struct, frozen=True):
    """A quota of an entity has a new value, or, with None, is gone. The entity is sorted by type; a name of None stands
    for the default of all that have no quota of their own."""

    KIND: ClassVar[str] = "client-quota"
    entity: QuotaEntity
    key: str
    value: float | None


MetadataRecord = (
    TopicRecord
    | PartitionsAddedRecord
    | PartitionChangedRecord
    | TopicRemovedRecord
    | ConfigRecord
    | BrokerRegisteredRecord
    | BrokerRemovedRecord
    | ControllerRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
)

_VERSION: Final = 0


def encode_record(record: MetadataRecord) -> bytes:
    """A record as it is stored."""
    values = [encode(getattr(record, name)) for name, encode, _ in _FIELDS[record.KIND]]
    return json.dumps([record.KIND, _VERSION, *values], separators=(",", ":"), ensure_ascii=False).encode()


def decode_record(data: bytes) -> MetadataRecord:
    """A stored record. Raises InvalidInputError when it is broken, or of a kind or version this release cannot know."""
    try:
        kind, version, *values = json.loads(data)
        record_type = _TYPES.get(kind)
        if record_type is None or version != _VERSION:
            raise InvalidInputError(f"metadata record {kind!r} version {version!r} is unknown to this release")
        record_fields = _FIELDS[kind]
        if len(record_fields) != len(values):
            raise InvalidInputError(f"metadata record {kind!r} has {len(values)} fields, not {len(record_fields)}")
        return record_type(*[decode(value) for (_, _, decode), value in zip(record_fields, values, strict=True)])
    except InvalidInputError:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"a metadata record is broken: {error}") from error


def topic_id_text(topic_id: UUID) -> str:
    """A topic id as Kafka prints it: 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def parse_topic_id(text: str) -> UUID:
    """The reverse of `topic_id_text`; ValueError when it is not one."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _as_is(value: Any) -> Any:
    return value


def _decode_state(value: Any) -> PartitionState:
    leader, leader_epoch, replicas, isr, partition_epoch = value
    return PartitionState(leader, leader_epoch, tuple(replicas), tuple(isr), partition_epoch)


def _decode_states(values: Any) -> tuple[PartitionState, ...]:
    return tuple(map(_decode_state, values))


def _decode_entity(value: Any) -> QuotaEntity:
    return tuple((kind, name) for kind, name in value)


_ENCODE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType({"topic_id": topic_id_text})
_DECODE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"topic_id": parse_topic_id, "partitions": _decode_states, "state": _decode_state, "entity": _decode_entity}
)
_TYPES: Final[Mapping[str, type[MetadataRecord]]] = MappingProxyType(
    {
        record_type.KIND: record_type
        for record_type in (
            TopicRecord,
            PartitionsAddedRecord,
            PartitionChangedRecord,
            TopicRemovedRecord,
            ConfigRecord,
            BrokerRegisteredRecord,
            BrokerRemovedRecord,
            ControllerRecord,
            ProducerIdsRecord,
            FeatureLevelRecord,
            ClientQuotaRecord,
        )
    }
)

_FIELDS: Final = {
    kind: tuple((name, _ENCODE.get(name, _as_is), _DECODE.get(name, _as_is)) for name in record_type.__match_args__)
    for kind, record_type in _TYPES.items()
}
"""Name, encoder and decoder of each field, by the kind of the record."""
