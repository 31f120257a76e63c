"""Decides about quotas of clients (KIP-546): of each entity all that was asked, or nothing and the reason.

Errors, as Kafka answers them: INVALID_REQUEST (an entity or a key twice, an entity that cannot be, a key that it cannot
have, a value that is no such quota). POLICY_VIOLATION says that there are as many entities as may be.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final

from msgspec import Struct

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import ClientQuotaRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.quota_entity import CLIENT_ID, IP, USER, QuotaEntity, entity_text, quota_entity
from ottla.settings.definition import shortened

ENTITIES_MAX: Final = 100_000
"""How many entities may have quotas: they are kept in the metadata, and looked through by whoever lists them."""

NAME_BYTES_MAX: Final = 255
"""A name of an entity. Of longer client ids their beginning counts (`ottla.broker.quota_manager`)."""

_LONG, _DOUBLE, _INT = "a whole number", "a number", "a whole number of 32 bits"
_OF_CLIENTS: Final = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": _DOUBLE,
    "controller_mutation_rate": _DOUBLE,
}
_OF_ADDRESSES: Final = {"connection_creation_rate": _INT}

_LARGEST: Final = {_LONG: 2**63 - 1, _INT: 2**31 - 1}
_ROUNDING: Final = 1e-6
"""A whole number may be off by so much, since it travels as a floating-point one."""


class QuotaAlteration(Struct, frozen=True):
    """What is to become of quotas of an entity: keys with values, None for none."""

    parts: Sequence[tuple[str, str | None]]
    changes: Sequence[tuple[str, float | None]]


def decide_quota_alteration(
    image: MetadataImage, alterations: Sequence[QuotaAlteration]
) -> Decision[list[Outcome[None]]]:
    """Decide about each entity by itself; the outcomes in their order."""
    outcomes: list[Outcome[None]] = []
    records: list[ClientQuotaRecord] = []
    count = len(image.client_quotas)
    entities = [_entity_or_refusal(each) for each in alterations]
    occurrences = Counter(each for each in entities if not isinstance(each, ApiError))
    for entity, alteration in zip(entities, alterations, strict=True):
        if isinstance(entity, ApiError):
            outcomes.append(entity)
            continue
        try:
            if occurrences[entity] > 1:
                raise _refused(f"the request names the entity {_shown(entity)} more than once")
            changed = _changes(image.client_quotas.get(entity, {}), entity, alteration)
            if entity not in image.client_quotas and any(value is not None for _, value in changed):
                if count >= ENTITIES_MAX:
                    raise ApiError(ErrorCode.POLICY_VIOLATION, f"{ENTITIES_MAX} entities have quotas already")
                count += 1
        except ApiError as error:
            outcomes.append(error)
            continue
        records.extend(ClientQuotaRecord(entity, key, value) for key, value in changed)
        outcomes.append(None)
    return Decision(tuple(records), outcomes)


def _entity_or_refusal(alteration: QuotaAlteration) -> Outcome[QuotaEntity]:
    try:
        return _entity(alteration)
    except ApiError as error:
        return error


def _entity(alteration: QuotaAlteration) -> QuotaEntity:
    """Whom the quotas are for. Addresses come in one form. Raises ApiError."""
    kinds = [kind for kind, _ in alteration.parts]
    if not kinds:
        raise _refused("Invalid empty client quota entity: it needs a user, a client id or an IP")
    for kind, name in alteration.parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise _refused(f"Unhandled client quota entity type: {shortened(kind)}; there are user, client-id and ip")
        if name == "":
            raise _refused(f"an empty {kind} is not supported; null stands for the default")
        if name is not None and len(name.encode()) > NAME_BYTES_MAX:
            raise _refused(f"a {kind} may have {NAME_BYTES_MAX} bytes at most")
    if len(set(kinds)) != len(kinds):
        raise _refused("an entity has each type once at most")
    if IP in kinds and len(kinds) > 1:
        raise _refused(
            "Invalid quota entity combination: an IP entity should not be combined with a user or a client id"
        )
    return quota_entity((kind, _address(name) if kind == IP and name else name) for kind, name in alteration.parts)


def _address(text: str) -> str:
    import ipaddress  # only who sets such a quota waits for it

    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise _refused(f"{shortened(text)} is not a valid IP; names of hosts are not looked up") from None


def _changes(
    present: Mapping[str, float], entity: QuotaEntity, alteration: QuotaAlteration
) -> list[tuple[str, float | None]]:
    """What differs from the present. Raises ApiError."""
    keys = [key for key, _ in alteration.changes]
    if len(set(keys)) != len(keys):
        raise _refused(f"a quota of {_shown(entity)} is given more than once")
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    for key, value in alteration.changes:
        if value is None:
            continue
        kind = known.get(key)
        if kind is None:
            raise _refused(
                f"Invalid configuration key {shortened(key)} for {_shown(entity)}: there are {', '.join(known)}"
            )
        if not isfinite(value) or value <= 0:
            raise _refused(f"{key} must be greater than 0, not {value:g}")
        if kind != _DOUBLE and abs(round(value) - value) > _ROUNDING:
            raise _refused(f"{key} cannot be a fractional value: it must be {kind}, not {value!r}")
        if kind != _DOUBLE and value > _LARGEST[kind]:
            raise _refused(f"{key} must be {kind}, not {value!r}")
    return [(key, value) for key, value in alteration.changes if present.get(key) != value]


def _shown(entity: QuotaEntity) -> str:
    return shortened(entity_text(entity))


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
