"""The records of the metadata log: every fact the cluster agrees on, one record for each change.

A record is a compact JSON array: its kind, the version of its layout, then its fields in the order of the class.

    ["topic",0,"orders","h1QbnLqvTVmFl8LQmDZyzg",[[1,0,[1],[1],0]]]

Topic ids are written as Kafka prints them: 16 bytes in URL-safe base64 without padding. A later layout gets the next
version; `decode_record` keeps reading the old ones. An unknown kind or version is refused, because a broker that skips
a fact would disagree with the others.

Version 1 has what a cluster adds: four more items in the state of a partition, six more fields of a broker. A record
that says none of it is written in version 0.

    ["partition-changed",1,"h1QbnLqvTVmFl8LQmDZyzg",0,[2,5,[1,2],[2],9,[],[],[1],-1]]
"""

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from msgspec import Struct, json

from ottla import __version__
from ottla.model.acl import AclBinding
from ottla.model.delegation_token import DelegationToken, TokenParty
from ottla.model.errors import InvalidInputError
from ottla.model.quota_entity import QuotaEntity
from ottla.model.scram_credential import ScramCredential


class PartitionState(NamedTuple):
    """Who holds a partition. The leader epoch rises with each leader, the partition epoch with each change.

    `replicas` has those that are `adding` and `removing` in it while it is reassigned (KIP-455). `elr` are replicas out
    of sync that have everything committed nevertheless (KIP-966); `last_known_leader` is who led before nobody did.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_leader: int = -1


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


class PartitionsChangedRecord(Struct, frozen=True):
    """Several partitions of a topic changed by one decision, each by its index: a broker's death changes many."""

    KIND: ClassVar[str] = "partitions-changed"
    topic_id: UUID
    changes: tuple[tuple[int, PartitionState], ...]


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
    """A broker is there, with the address it tells clients; a host of None is the one each client came by.

    `endpoints` are its listeners by name. `incarnation` is drawn anew by each process, `directories` are the ids of its
    log directories, `flush` is whether it flushes before it acknowledges. A broker that is `fenced` is not shown to
    clients and leads nothing; one that is `shutting_down` gives its leaderships away. `offline` are those of its log
    directories that failed.
    """

    KIND: ClassVar[str] = "broker"
    broker_id: int
    broker_epoch: int
    host: str | None
    port: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]] = MappingProxyType({})
    incarnation: str = ""
    directories: tuple[str, ...] = ()
    flush: bool = True
    fenced: bool = False
    shutting_down: bool = False
    offline: tuple[UUID, ...] = ()


class BrokerChangedRecord(Struct, frozen=True):
    """A broker is fenced or is not any more, or has begun to stop."""

    KIND: ClassVar[str] = "broker-changed"
    broker_id: int
    broker_epoch: int
    fenced: bool
    shutting_down: bool


class BrokerDirectoriesRecord(Struct, frozen=True):
    """Which log directories of a broker have failed: what lies there leads nothing and is in no ISR (KIP-858)."""

    KIND: ClassVar[str] = "broker-directories"
    broker_id: int
    broker_epoch: int
    offline: tuple[UUID, ...]


class BrokerRemovedRecord(Struct, frozen=True):
    """A broker is no member of the cluster any more."""

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


class ReplicaDirectoriesRecord(Struct, frozen=True):
    """A broker that has several data directories says in which of them its replicas of a topic's partitions lie: each
    index with the id of the directory (KIP-858)."""

    KIND: ClassVar[str] = "replica-directories"
    broker_id: int
    topic_id: UUID
    places: tuple[tuple[int, UUID], ...]


class AclRecord(Struct, frozen=True):
    """An ACL was added or, with `exists` false, removed."""

    KIND: ClassVar[str] = "acl"
    acl: AclBinding
    exists: bool


class ScramCredentialRecord(Struct, frozen=True):
    """A user has this credential for a mechanism of SCRAM or, with None, has none any more."""

    KIND: ClassVar[str] = "scram-credential"
    user: str
    mechanism: int
    credential: ScramCredential | None


class DelegationTokenRecord(Struct, frozen=True):
    """There is this delegation token, perhaps with another end than before, or with None it is gone."""

    KIND: ClassVar[str] = "delegation-token"
    token_id: str
    token: DelegationToken | None


MetadataRecord = (
    TopicRecord
    | PartitionsAddedRecord
    | PartitionChangedRecord
    | PartitionsChangedRecord
    | TopicRemovedRecord
    | ConfigRecord
    | BrokerRegisteredRecord
    | BrokerChangedRecord
    | BrokerDirectoriesRecord
    | BrokerRemovedRecord
    | ControllerRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ReplicaDirectoriesRecord
    | AclRecord
    | ScramCredentialRecord
    | DelegationTokenRecord
)

_json_encode: Final = json.Encoder().encode
_json_decode: Final = json.Decoder().decode

_ALONE: Final = 0
_CLUSTER: Final = 1
"""The layout of records that say something which only brokers of a cluster have to say."""


def encode_record(record: MetadataRecord) -> bytes:
    """A record as it is stored."""
    version = _version(record)
    fields = _FIELDS[record.KIND][: _FIELDS_OF_ONE_BROKER.get(record.KIND) if version == _ALONE else None]
    values = [encode(getattr(record, name)) for name, encode, _ in fields]
    return _json_encode([record.KIND, version, *values])


def decode_record(data: bytes) -> MetadataRecord:
    """A stored record. Raises InvalidInputError when it is broken, or of a kind or version this release cannot know."""
    try:
        kind, version, *values = _json_decode(data)
        record_type = _TYPES.get(kind)
        if record_type is None or not (version == _ALONE or (version == _CLUSTER and kind in _VERSIONED)):
            raise InvalidInputError(
                f"metadata record {kind!r} version {version!r} is unknown to Ottla {__version__}: a newer release "
                "wrote it; start that one"
            )
        record_fields = _FIELDS[kind][: _FIELDS_OF_ONE_BROKER.get(kind) if version == _ALONE else None]
        if len(record_fields) != len(values):
            raise InvalidInputError(f"metadata record {kind!r} has {len(values)} fields, not {len(record_fields)}")
        return record_type(*[decode(value) for (_, _, decode), value in zip(record_fields, values, strict=True)])
    except InvalidInputError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"a metadata record is broken: {error}") from error


def _version(record: MetadataRecord) -> int:
    """The oldest layout that says all that the record says."""
    if isinstance(record, TopicRecord | PartitionsAddedRecord):
        return max(map(_state_version, record.partitions), default=_ALONE)
    if isinstance(record, PartitionChangedRecord):
        return _state_version(record.state)
    if isinstance(record, BrokerRegisteredRecord):
        of_one = BrokerRegisteredRecord(record.broker_id, record.broker_epoch, record.host, record.port, record.rack)
        return _ALONE if record == of_one else _CLUSTER
    return _CLUSTER if record.KIND in _ONLY_IN_A_CLUSTER else _ALONE


def _state_version(state: PartitionState) -> int:
    return _ALONE if state[5:] == _NOTHING_MORE else _CLUSTER


def topic_id_text(topic_id: UUID) -> str:
    """A topic id as Kafka prints it: 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def parse_topic_id(text: str) -> UUID:
    """The reverse of `topic_id_text`; ValueError when it is not one."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _as_is(value: Any) -> Any:
    return value


_NOTHING_MORE: Final = PartitionState(-1, 0, (), (), 0)[5:]


def _encode_state(state: PartitionState) -> PartitionState | tuple[object, ...]:
    return state[:5] if state[5:] == _NOTHING_MORE else state


def _encode_states(states: tuple[PartitionState, ...]) -> list[object]:
    return list(map(_encode_state, states))


def _encode_changes(changes: tuple[tuple[int, PartitionState], ...]) -> list[object]:
    return [(index, _encode_state(state)) for index, state in changes]


def _decode_state(value: Any) -> PartitionState:
    if len(value) == 5:
        leader, leader_epoch, replicas, isr, partition_epoch = value
        return PartitionState(leader, leader_epoch, tuple(replicas), tuple(isr), partition_epoch)
    leader, leader_epoch, replicas, isr, partition_epoch, adding, removing, elr, last_known_leader = value
    return PartitionState(
        leader,
        leader_epoch,
        tuple(replicas),
        tuple(isr),
        partition_epoch,
        tuple(adding),
        tuple(removing),
        tuple(elr),
        last_known_leader,
    )


def _decode_states(values: Any) -> tuple[PartitionState, ...]:
    return tuple(map(_decode_state, values))


def _decode_changes(values: Any) -> tuple[tuple[int, PartitionState], ...]:
    return tuple((index, _decode_state(state)) for index, state in values)


def _decode_endpoints(value: Any) -> dict[str, tuple[str, int]]:
    return {name: (host, port) for name, (host, port) in value.items()}


def _encode_ids(ids: tuple[UUID, ...]) -> list[str]:
    return list(map(topic_id_text, ids))


def _decode_ids(values: Any) -> tuple[UUID, ...]:
    return tuple(map(parse_topic_id, values))


def _encode_places(places: tuple[tuple[int, UUID], ...]) -> list[object]:
    return [(index, topic_id_text(directory_id)) for index, directory_id in places]


def _decode_places(values: Any) -> tuple[tuple[int, UUID], ...]:
    return tuple((index, parse_topic_id(text)) for index, text in values)


def _decode_entity(value: Any) -> QuotaEntity:
    return tuple((kind, name) for kind, name in value)


def _encode_acl(acl: AclBinding) -> list[object]:
    return [getattr(acl, name) for name in AclBinding.__struct_fields__]


def _decode_acl(value: Any) -> AclBinding:
    return AclBinding(*value)


def _encode_credential(credential: ScramCredential | None) -> list[object] | None:
    if credential is None:
        return None
    salt, *keys = (base64.b64encode(each).decode() for each in (credential.salt, *_keys_of(credential)))
    return [salt, credential.iterations, *keys]


def _keys_of(credential: ScramCredential) -> tuple[bytes, bytes]:
    return credential.stored_key, credential.server_key


def _decode_credential(value: Any) -> ScramCredential | None:
    if value is None:
        return None
    salt, iterations, stored_key, server_key = value
    return ScramCredential(
        base64.b64decode(salt), iterations, base64.b64decode(stored_key), base64.b64decode(server_key)
    )


def _encode_token(token: DelegationToken | None) -> list[object] | None:
    return None if token is None else [getattr(token, name) for name in DelegationToken.__struct_fields__]


def _decode_token(value: Any) -> DelegationToken | None:
    if value is None:
        return None
    token_id, owner, requester, renewers, *times = value
    return DelegationToken(
        token_id, TokenParty(*owner), TokenParty(*requester), tuple(TokenParty(*each) for each in renewers), *times
    )


_ENCODE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "topic_id": topic_id_text,
        "partitions": _encode_states,
        "state": _encode_state,
        "changes": _encode_changes,
        "endpoints": dict,
        "offline": _encode_ids,
        "places": _encode_places,
        "acl": _encode_acl,
        "credential": _encode_credential,
        "token": _encode_token,
    }
)
_DECODE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "topic_id": parse_topic_id,
        "partitions": _decode_states,
        "state": _decode_state,
        "changes": _decode_changes,
        "endpoints": _decode_endpoints,
        "directories": tuple,
        "offline": _decode_ids,
        "places": _decode_places,
        "entity": _decode_entity,
        "acl": _decode_acl,
        "credential": _decode_credential,
        "token": _decode_token,
    }
)
_FIELDS_OF_ONE_BROKER: Final[Mapping[str, int]] = MappingProxyType({BrokerRegisteredRecord.KIND: 5})
"""How many fields version 0 has, where version 1 has more."""

_ONLY_IN_A_CLUSTER: Final = frozenset(
    {PartitionsChangedRecord.KIND, BrokerChangedRecord.KIND, BrokerDirectoriesRecord.KIND}
)

_VERSIONED: Final = _ONLY_IN_A_CLUSTER | {
    TopicRecord.KIND,
    PartitionsAddedRecord.KIND,
    PartitionChangedRecord.KIND,
    BrokerRegisteredRecord.KIND,
}
"""The kinds that version 1 has."""

_TYPES: Final[Mapping[str, type[MetadataRecord]]] = MappingProxyType(
    {
        record_type.KIND: record_type
        for record_type in (
            TopicRecord,
            PartitionsAddedRecord,
            PartitionChangedRecord,
            PartitionsChangedRecord,
            TopicRemovedRecord,
            ConfigRecord,
            BrokerRegisteredRecord,
            BrokerChangedRecord,
            BrokerDirectoriesRecord,
            BrokerRemovedRecord,
            ControllerRecord,
            ProducerIdsRecord,
            FeatureLevelRecord,
            ClientQuotaRecord,
            ReplicaDirectoriesRecord,
            AclRecord,
            ScramCredentialRecord,
            DelegationTokenRecord,
        )
    }
)

_FIELDS: Final = {
    kind: tuple((name, _ENCODE.get(name, _as_is), _DECODE.get(name, _as_is)) for name in record_type.__match_args__)
    for kind, record_type in _TYPES.items()
}
"""Name, encoder and decoder of each field, by the kind of the record."""
