"""Codecs of messages, made from the schema tables when a message is first used in a version.

A plan is the table with the versions worked out and the classes looked up. The kernel turns a plan into its own form
once, and then works through bytes with it.
"""

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.native import MessageCodec
from ottla.native.errors import MessageError
from ottla.protocol import schema

if TYPE_CHECKING:
    from ottla.protocol.message import Message

REQUEST_ELEMENTS_MAX: Final = 1 << 17
"""The most elements that all arrays of one request may have together. An element of two bytes becomes an object and its
answer another, a few hundred bytes each; a request that names every partition of a full broker stays below."""

ELEMENTS_MAX: Final = 4 << 20
"""The same for what a client reads from its broker, which may tell of every setting of every topic."""

_codecs: "dict[tuple[type[Message], int], MessageCodec]" = {}


class FieldPlan(NamedTuple):
    """A field in one version. `name` is the attribute; `default` is the default of the Python class."""

    name: str
    type_name: str
    struct_plan: "StructPlan | None"
    is_array: bool
    is_carried: bool
    nullable: bool
    tag: int | None
    ignorable: bool
    inflexible: bool
    default: object


class StructPlan(NamedTuple):
    """A struct in one version: its class, and all its fields in the order of the wire."""

    struct_class: type
    fields: tuple[FieldPlan, ...]


def codec_for(message_class: "type[Message]", version: int) -> MessageCodec:
    """The codec of a message in a version. Raises MessageError when the message has no such version."""
    codec = _codecs.get((message_class, version))
    if codec is None:
        codec = _codecs[message_class, version] = _make_codec(message_class, version)
    return codec


def _make_codec(message_class: "type[Message]", version: int) -> MessageCodec:
    module = message_class.__module__
    table = _table_of(module)
    message = table.messages[message_class.__name__]
    if version not in message.versions:
        raise MessageError(f"{message.name} has the versions {message.versions}, not {version}")
    flexible = message.flexible is not None and version in message.flexible
    plan = _struct_plan(vars(importlib.import_module(module)), table, message.struct, version)
    elements_max = REQUEST_ELEMENTS_MAX if message.kind == "request" else ELEMENTS_MAX
    return MessageCodec(f"{message.name} v{version}", flexible, plan, elements_max)


@cache
def _table_of(module: str) -> schema.SchemaTable:
    _, package, name = module.rsplit(".", 2)
    return schema.load(package, name)


def _struct_plan(
    classes: dict[str, Any], table: schema.SchemaTable, struct: schema.StructSchema, version: int
) -> StructPlan:
    struct_class = classes[struct.name]
    defaults = dict(zip(struct_class.__struct_fields__, struct_class.__struct_defaults__, strict=True))
    fields = (
        FieldPlan(
            name=each.attribute,
            type_name=each.type_name,
            struct_plan=_struct_plan(classes, table, table.structs[each.type_name], version)
            if each.is_struct
            else None,
            is_array=each.is_array,
            is_carried=version in each.versions,
            nullable=each.nullable is not None and version in each.nullable,
            tag=each.tag,
            ignorable=each.ignorable,
            inflexible=each.inflexible,
            default=defaults[each.attribute],
        )
        for each in struct.fields
    )
    return StructPlan(struct_class, tuple(fields))
