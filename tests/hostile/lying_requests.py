"""Requests in which one count or length lies: for each place in each request where one stands."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ottla.protocol.message import ApiMessage
from ottla.protocol.schema import FieldSchema, SchemaTable, StructSchema
from tests.unit.protocol.message_strategy import table_of
from tests.unit.protocol.reference_codec import unsigned_varint

FIXED_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint16": 2,
    "uint32": 4,
    "float64": 8,
    "uuid": 16,
}
LIES_CLASSIC = (-2, -(2**31), 2**31 - 1, 2**24)
LIES_CLASSIC_STRING = (-2, -(2**15), 2**15 - 1)
LIES_COMPACT = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\x7f")


def lies(message_class: type[ApiMessage], version: int) -> Iterator[bytes]:
    """Bodies with one element in each array, in which one count, length or tagged field lies in one way."""
    place = 0
    while (bodies := _Writer(message_class, version, place).bodies()) is not None:
        yield from bodies
        place += 1


class _Writer:
    """Writes a request that is right but for the place of the lie, which is left open."""

    def __init__(self, message_class: type[ApiMessage], version: int, place: int) -> None:
        self.table: SchemaTable = table_of(message_class)
        self.schema = self.table.messages[message_class.__name__]
        self.version = version
        self.flexible = self.schema.flexible is not None and version in self.schema.flexible
        self.place = place
        self.seen = 0
        self.before = b""
        self.lies: list[bytes] = []
        self.out = b""

    def bodies(self) -> list[bytes] | None:
        """The request with each lie; None when it has no such place."""
        self.struct(self.schema.struct)
        if not self.lies:
            return None
        return [self.before + lie + self.out[len(self.before) :] for lie in self.lies]

    def here(self, lies: list[bytes]) -> None:
        if self.seen == self.place:
            self.before, self.lies = self.out, lies
        self.seen += 1

    def struct(self, schema: StructSchema) -> None:
        for each in schema.fields:
            if self.version in each.versions and each.tag is None:
                self.field(each)
        if self.flexible:
            self.here([*LIES_COMPACT, *(b"\x01\x63" + lie for lie in LIES_COMPACT)])
            self.out += b"\0"

    def field(self, each: FieldSchema) -> None:
        if each.is_array:
            self.count(4, 1)
            self.element(each)
        elif each.is_struct and each.nullable is not None and self.version in each.nullable:
            self.out += b"\1"
            self.element(each)
        else:
            self.element(each)

    def element(self, each: FieldSchema) -> None:
        if each.type_name == "string":
            self.count(2, 1)
            self.out += b"x"
        elif each.type_name in ("bytes", "records"):
            self.count(4, 1)
            self.out += b"x"
        elif each.type_name in FIXED_BYTES:
            self.out += bytes(FIXED_BYTES[each.type_name])
        else:
            self.struct(self.table.structs[each.type_name])

    def count(self, width: int, truth: int) -> None:
        if self.flexible:
            self.here(list(LIES_COMPACT))
            self.out += unsigned_varint(truth + 1)
        elif width == 4:
            self.here([struct.pack(">i", lie) for lie in LIES_CLASSIC])
            self.out += struct.pack(">i", truth)
        else:
            self.here([struct.pack(">h", lie) for lie in LIES_CLASSIC_STRING])
            self.out += struct.pack(">h", truth)
