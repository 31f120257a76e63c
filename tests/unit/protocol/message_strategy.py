"""Hypothesis strategies for messages, made from the schema tables."""

import importlib
import sys
from functools import cache
from uuid import UUID

from hypothesis import strategies as st

from ottla.protocol.message import Message
from ottla.protocol.schema import SCHEMA_DIRECTORY, FieldSchema, SchemaTable, StructSchema, load

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}


def all_messages() -> list[type[Message]]:
    """Every message class of every table."""
    classes = []
    for path in sorted(SCHEMA_DIRECTORY.glob("*/*.schema")):
        module = importlib.import_module(f"ottla.protocol.{path.parent.name}.{path.stem}")
        classes += [getattr(module, name) for name in load(path.parent.name, path.stem).messages]
    return classes


def table_of(message_class: type) -> SchemaTable:
    _, package, module = message_class.__module__.rsplit(".", 2)
    return _table(package, module)


@cache
def _table(package: str, module: str) -> SchemaTable:
    return load(package, module)


def integers(type_name: str) -> st.SearchStrategy[int]:
    """All values of an integer type, its ends more often than chance would have it."""
    if type_name in UNSIGNED_BITS:
        first, last = 0, (1 << UNSIGNED_BITS[type_name]) - 1
    else:
        half = 1 << INTEGER_BITS[type_name] - 1
        first, last = -half, half - 1
    return st.sampled_from([first, last, 0, 1]) | st.integers(first, last)


PRIMITIVES: dict[str, st.SearchStrategy[object]] = {
    **{name: integers(name) for name in (*INTEGER_BITS, *UNSIGNED_BITS)},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=5) | st.sampled_from(["", "é", "a" * 130]),
    "bytes": st.binary(max_size=5),
    "records": st.binary(max_size=5),
    "uuid": st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=(1 << 128) - 1)]) | st.uuids(),
}


def messages(
    message_class: type[Message], version: int, elements: dict[tuple[str, str], st.SearchStrategy[object]] | None = None
) -> st.SearchStrategy[Message]:
    """Messages that `version` can carry. `elements` replaces the values of fields: `("FetchRequest", "MaxWaitMs")`."""
    table = table_of(message_class)
    return _structs(table, message_class.__module__, table.structs[message_class.__name__], version, elements or {})


def _structs(
    table: SchemaTable,
    module: str,
    struct: StructSchema,
    version: int,
    elements: dict[tuple[str, str], st.SearchStrategy[object]],
) -> st.SearchStrategy[Message]:
    fields = {
        each.attribute: _values(table, module, struct, each, version, elements)
        for each in struct.fields
        if version in each.versions
    }
    return st.builds(getattr(sys.modules[module], struct.name), **fields)


def _values(
    table: SchemaTable,
    module: str,
    struct: StructSchema,
    each: FieldSchema,
    version: int,
    elements: dict[tuple[str, str], st.SearchStrategy[object]],
) -> st.SearchStrategy[object]:
    values = elements.get((struct.name, each.name))
    if values is None:
        values = (
            _structs(table, module, table.structs[each.type_name], version, elements)
            if each.is_struct
            else PRIMITIVES[each.type_name]
        )
    if each.is_array:
        values = st.lists(values, max_size=0 if values.is_empty else 2).map(tuple)
    if each.nullable and version in each.nullable:
        values = st.none() | values
    return values
