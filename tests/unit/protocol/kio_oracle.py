"""The same messages in kio, an implementation that others made from Kafka's own sources.

Its classes are one per version. Each holds the fields that the version carries, in the order of Kafka's schemas, which
is how they are matched with ours; it reads error codes, times and durations as richer types than the wire has.
"""

import importlib
import io
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, get_args

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.protocol.message import ZERO_UUID, Message
from ottla.protocol.schema import FieldSchema, StructSchema
from tests.unit.protocol.message_strategy import table_of

DATA_PACKAGES = {
    "RequestHeader": "request_header",
    "ResponseHeader": "response_header",
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
    "ControlRecordTypeSchema": "control_record_type_schema",
    "DefaultPrincipalData": "default_principal_data",
    "EndTxnMarker": "end_txn_marker",
    "KRaftVersionRecord": "k_raft_version_record",
    "LeaderChangeMessage": "leader_change_message",
    "SnapshotFooterRecord": "snapshot_footer_record",
    "SnapshotHeaderRecord": "snapshot_header_record",
}
"""Where kio has the messages that belong to no API."""

OWN_TAGS_FROM = 10_000
"""Kafka numbers its tags from 0."""

MILLISECONDS_THAT_FLOATS_KEEP = 1 << 41
VALUES_OF_RICH_TYPES = {
    "error_code": st.sampled_from([int(code) for code in ErrorCode]),
    "timedelta_i64": st.integers(-MILLISECONDS_THAT_FLOATS_KEEP, MILLISECONDS_THAT_FLOATS_KEEP),
    "datetime_i64": st.integers(0, MILLISECONDS_THAT_FLOATS_KEEP),
}
"""What kio can read of an int16 or an int64 that it takes for something else: not every number is one."""


def class_of(message_class: type[Message], version: int) -> Any:
    """kio's class of a message in a version. Raises ModuleNotFoundError when it has none."""
    name = message_class.__name__
    if table_of(message_class).api_key is not None:
        package = message_class.__module__.rsplit(".", 1)[1]
        module = "request" if name.endswith("Request") else "response"
    elif name in DATA_PACKAGES:
        package = DATA_PACKAGES[name]
        module = "header" if name.endswith("Header") else "data"
    else:
        raise ModuleNotFoundError(f"kio has no {name}")
    return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{module}"), name)


def encode(kio_message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(kio_message))(buffer, kio_message)
    return buffer.getvalue()


def decode(kio_class: Any, data: bytes) -> Any:
    """The message that `data` is, to its end."""
    message, size = entity_reader(kio_class)(data, 0)
    assert size == len(data)
    return message


def readable_values(message_class: type[Message], version: int) -> dict[tuple[str, str], st.SearchStrategy[object]]:
    """The fields whose values kio restricts, and the values it can read."""
    values: dict[tuple[str, str], st.SearchStrategy[object]] = {}
    table = table_of(message_class)

    def walk(struct: StructSchema, kio_class: Any) -> None:
        for each, kio_field in _pairs(struct, kio_class, version):
            if each.is_struct:
                walk(table.structs[each.type_name], _struct_class(kio_field.type))
            elif kio_field.metadata["kafka_type"] in VALUES_OF_RICH_TYPES:
                values[struct.name, each.name] = VALUES_OF_RICH_TYPES[kio_field.metadata["kafka_type"]]

    walk(table.structs[message_class.__name__], class_of(message_class, version))
    for struct in table.structs.values():
        values |= {(struct.name, each.name): st.nothing() for each in struct.fields if _is_our_own(each)}
    return values


def as_ours(message_class: type[Message], version: int, kio_message: Any) -> Message:
    """kio's message as one of our class."""
    table = table_of(message_class)
    module = importlib.import_module(message_class.__module__)

    def convert(struct: StructSchema, kio_struct: Any) -> Any:
        values = {}
        for each, kio_field in _pairs(struct, type(kio_struct), version):
            value = getattr(kio_struct, kio_field.name)
            if each.is_array:
                value = None if value is None else tuple(convert_one(each, element) for element in value)
            else:
                value = convert_one(each, value)
            values[each.attribute] = value
        return getattr(module, struct.name)(**values)

    def convert_one(each: FieldSchema, value: Any) -> Any:
        if each.is_struct and value is not None:
            return convert(table.structs[each.type_name], value)
        return _plain(each, value)

    return convert(table.structs[message_class.__name__], kio_message)


def _plain(each: FieldSchema, value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if value is None:
        return {"uuid": ZERO_UUID, "int64": -1}.get(each.type_name)
    return value


def _is_our_own(each: FieldSchema) -> bool:
    """Whether Kafka has no such field: a tagged one, which it skips."""
    return each.tag is not None and each.tag >= OWN_TAGS_FROM


def _pairs(struct: StructSchema, kio_class: Any, version: int) -> Iterator[tuple[FieldSchema, Any]]:
    carried = [each for each in struct.fields if version in each.versions and not _is_our_own(each)]
    return zip(carried, fields(kio_class), strict=True)


def _struct_class(annotation: Any) -> Any:
    """The class in `X`, `X | None` or `tuple[X, ...]`."""
    while arguments := [each for each in get_args(annotation) if each not in (type(None), ...)]:
        annotation = arguments[0]
    return annotation
