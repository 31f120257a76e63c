"""Records of internal topics in words: which group or transaction they are about, and what they say."""

import importlib
from functools import cache
from typing import Any
from uuid import UUID

from msgspec import to_builtins

from ottla.model.errors import InvalidInputError
from ottla.protocol.coordinator_record import decode_key, decode_value, record_type
from ottla.protocol.message import CoordinatorKey, CoordinatorValue, Message

_MODULES = {
    "__consumer_offsets": ("offset_commit", "classic_group", "consumer_group", "share_group", "streams_group"),
    "__transaction_state": ("transaction_log",),
    "__share_group_state": ("share_state",),
}


def describe_coordinator_record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """`record_type`, `key` and `value` of a record as its fields; nothing for topics and records that are not known."""
    types = _types(topic)
    if not types or key is None:
        return {}
    try:
        known = types.get(record_type(key))
        if known is None:
            return {}
        key_class, value_class = known
        return {
            "record_type": key_class.__name__.removesuffix("Key"),
            "key": _as_dict(decode_key(key_class, key)),
            "value": None if value is None else _as_dict(decode_value(value_class, value)),
        }
    except InvalidInputError:
        return {}


def _as_dict(record: Message) -> object:
    return to_builtins(record, builtin_types=(bytes, UUID))


@cache
def _types(topic: str) -> dict[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]]:
    """Key and value classes by record type."""
    found = {}
    for name in _MODULES.get(topic, ()):
        module = vars(importlib.import_module(f"ottla.protocol.coordinator_records.{name}"))
        for each in module.values():
            if isinstance(each, type) and issubclass(each, CoordinatorKey) and each is not CoordinatorKey:
                found[each.RECORD_TYPE] = (each, module[each.__name__.removesuffix("Key") + "Value"])
    return found
