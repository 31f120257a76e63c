"""A slow and plain writer of messages, for those that no other implementation at hand has.

It follows https://kafka.apache.org/protocol#protocol_types, KIP-482 (tagged fields) and KIP-893 (nullable structs), and
takes from the project nothing but the schema tables.
"""

import struct
from typing import Any

from ottla.protocol.message import Message
from ottla.protocol.schema import FieldSchema, MessageSchema, SchemaTable, StructSchema
from tests.unit.protocol.message_strategy import table_of

NUMBER_FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
}


def default_of(value: Any, attribute: str) -> object:
    """What the class of `value` has for a field that is not given."""
    return value.__struct_defaults__[value.__struct_fields__.index(attribute)]


def encode(message: Message, version: int) -> bytes:
    table = table_of(type(message))
    schema = table.messages[type(message).__name__]
    return _Writer(table, schema, version).struct(schema.struct, message)


def unsigned_varint(value: int) -> bytes:
    groups = []
    while True:
        value, group = value >> 7, value & 0x7F
        groups.append(group | 0x80 if value else group)
        if not value:
            return bytes(groups)


class _Writer:
    def __init__(self, table: SchemaTable, message: MessageSchema, version: int) -> None:
        self.table = table
        self.version = version
        self.flexible = message.flexible is not None and version >= message.flexible.first

    def struct(self, schema: StructSchema, value: Any) -> bytes:
        plain, tagged = b"", []
        for each in schema.fields:
            if self.version not in each.versions:
                continue
            field_value = getattr(value, each.attribute)
            if each.tag is None:
                plain += self.field(each, field_value)
            elif field_value != default_of(value, each.attribute):
                tagged.append((each.tag, self.field(each, field_value)))
        if not self.flexible:
            return plain
        parts = [unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in sorted(tagged)]
        return plain + unsigned_varint(len(parts)) + b"".join(parts)

    def field(self, each: FieldSchema, value: Any) -> bytes:
        if each.inflexible and self.flexible:
            return self.inflexible_field(each, value)
        if each.is_array:
            if value is None:
                return self.length(-1, ">i")
            return self.length(len(value), ">i") + b"".join(self.element(each, element) for element in value)
        if each.is_struct and each.nullable is not None and self.version in each.nullable:
            absent = b"\0" if each.tag is not None else b"\xff"
            return absent if value is None else b"\1" + self.element(each, value)
        return self.element(each, value)

    def inflexible_field(self, each: FieldSchema, value: Any) -> bytes:
        """A field that keeps its old form in flexible versions: the client id of the request header."""
        self.flexible = False
        written = self.field(each, value)
        self.flexible = True
        return written

    def element(self, each: FieldSchema, value: Any) -> bytes:
        match each.type_name:
            case "string":
                return self.sized(None if value is None else value.encode(), ">h")
            case "bytes" | "records":
                return self.sized(value, ">i")
            case "uuid":
                return bytes(value.bytes)
            case number if number in NUMBER_FORMATS:
                return struct.pack(NUMBER_FORMATS[number], value)
            case name:
                return self.struct(self.table.structs[name], value)

    def sized(self, data: bytes | None, length_format: str) -> bytes:
        return self.length(-1, length_format) if data is None else self.length(len(data), length_format) + data

    def length(self, length: int, length_format: str) -> bytes:
        return unsigned_varint(length + 1) if self.flexible else struct.pack(length_format, length)
