"""Writes the message classes of `ottla.protocol` from the schema tables.

python tools/generate_protocol.py            writes what is not fresh
python tools/generate_protocol.py --check    writes nothing; exit code 1 when something is not fresh

Each table `schemas/X/Y.schema` gives one module `ottla/protocol/X/Y.py`. A module without a table is not fresh either.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.protocol.schema import SCHEMA_DIRECTORY, FieldSchema, MessageSchema, SchemaTable, StructSchema, load

PROTOCOL_DIRECTORY = SCHEMA_DIRECTORY.parent
INTEGERS = frozenset(["int8", "int16", "int32", "int64", "uint16", "uint32"])
PYTHON_TYPES = {"float64": "float", "string": "str", "records": "Records", "uuid": "UUID"}
EMPTY_VALUES = {"bool": "False", "float64": "0.0", "string": '""', "bytes": 'b""', "uuid": "ZERO_UUID"}
BASE_CLASSES = {
    "request": "ApiMessage",
    "response": "ApiMessage",
    "key": "CoordinatorKey",
    "value": "CoordinatorValue",
    "data": "Message",
}


def module_source(package: str, module: str) -> str:
    """The text of the module `ottla.protocol.<package>.<module>`."""
    table = load(package, module)
    classes = "\n\n".join("\n".join(_class_lines(table, struct)) + "\n" for struct in _inner_first(table))
    head = [
        f'"""{table.doc}',
        "",
        f"Written by tools/generate_protocol.py from schemas/{package}/{module}.schema.",
        "Change the table, not this file.",
        '"""',
        "",
        *_import_lines(table, classes),
    ]
    return "\n".join(head) + "\n\n\n" + classes


def _import_lines(table: SchemaTable, classes: str) -> Iterator[str]:
    yield "from typing import ClassVar"
    types = {each.type_name for struct in table.structs.values() for each in struct.fields}
    if "uuid" in types:
        yield "from uuid import UUID"
    yield ""
    if "(Struct," in classes:
        yield "from msgspec import Struct"
        yield ""
    names = {BASE_CLASSES[message.kind] for message in table.messages.values()}
    names |= {name for name in ("Records", "RecordSlices") if re.search(rf"\b{name}\b", classes)}
    constants = ["ZERO_UUID"] if "ZERO_UUID" in classes else []
    yield f"from ottla.protocol.message import {', '.join(constants + sorted(names, key=str.lower))}"


def _inner_first(table: SchemaTable) -> list[StructSchema]:
    """The structs of a table, each after those that its fields hold."""
    ordered: dict[str, StructSchema] = {}

    def visit(struct: StructSchema) -> None:
        if struct.name in ordered:
            return
        for each in struct.fields:
            if each.is_struct:
                visit(table.structs[each.type_name])
        ordered[struct.name] = struct

    for message in table.messages.values():
        visit(message.struct)
    return list(ordered.values())


def _class_lines(table: SchemaTable, struct: StructSchema) -> Iterator[str]:
    message = table.messages.get(struct.name)
    if message is None:
        yield f"class {struct.name}(Struct, frozen=True):"
        yield f'    """{_place(table, struct)}"""'
        yield ""
    else:
        yield f"class {struct.name}({BASE_CLASSES[message.kind]}, frozen=True):"
        yield from _message_lines(table, message)
    for each in struct.fields:
        yield _field_line(table, struct, each)


def _place(table: SchemaTable, struct: StructSchema) -> str:
    places = [
        f"`{owner.name}.{each.attribute}`"
        for owner in table.structs.values()
        for each in owner.fields
        if each.type_name == struct.name
    ]
    return f"Stands in {places[0]}." if len(places) == 1 else f"Stands in {places[0]} and {len(places) - 1} more."


def _message_lines(table: SchemaTable, message: MessageSchema) -> Iterator[str]:
    flexible = "never flexible" if message.flexible is None else f"flexible from {message.flexible.first}"
    noun = {"key": "record key", "value": "record value", "data": "data"}.get(message.kind, message.kind)
    many = message.versions.first != message.versions.last
    yield f'    """The {noun}, {"versions" if many else "version"} {message.versions}, {flexible}."""'
    yield ""
    if table.api_key is not None:
        yield f"    API_KEY: ClassVar[int] = {table.api_key}"
    if message.record_type is not None:
        yield f"    RECORD_TYPE: ClassVar[int] = {message.record_type}"
    yield f"    MIN_VERSION: ClassVar[int] = {message.versions.first}"
    yield f"    MAX_VERSION: ClassVar[int] = {message.versions.last}"
    if message.struct.fields:
        yield ""


def _field_line(table: SchemaTable, struct: StructSchema, each: FieldSchema) -> str:
    notes = []
    if each.type_name in INTEGERS:
        notes.append(each.type_name)
    versions = _carrying_versions(table, struct, each)
    if versions:
        notes.append(versions)
    note = f"  # {', '.join(notes)}" if notes else ""
    return f"    {each.attribute}: {_annotation(table, struct, each)} = {_default(each)}{note}"


def _carrying_versions(table: SchemaTable, struct: StructSchema, each: FieldSchema) -> str:
    """The versions that carry a field, when they are not all that carry its struct."""
    owners = [
        other.versions for owner in table.structs.values() for other in owner.fields if other.type_name == struct.name
    ]
    owners += [message.versions for message in table.messages.values() if message.struct is struct]
    if each.versions in owners:
        return ""
    last = max(owner.last for owner in owners)
    return f"{each.versions.first}+" if each.versions.last == last else str(each.versions)


def _annotation(table: SchemaTable, struct: StructSchema, each: FieldSchema) -> str:
    name = "int" if each.type_name in INTEGERS else PYTHON_TYPES.get(each.type_name, each.type_name)
    if each.type_name == "records" and "response" in {message.kind for message in table.messages.values()}:
        name = "Records" if struct.name in _structs_of_request(table) else "Records | RecordSlices"
    if each.is_array:
        name = f"tuple[{name}, ...]"
    return f"{name} | None" if each.nullable else name


def _structs_of_request(table: SchemaTable) -> set[str]:
    names: set[str] = set()

    def visit(struct: StructSchema) -> None:
        names.add(struct.name)
        for each in struct.fields:
            if each.is_struct:
                visit(table.structs[each.type_name])

    for message in table.messages.values():
        if message.kind == "request":
            visit(message.struct)
    return names


def _default(each: FieldSchema) -> str:
    if each.default == "null":
        return "None"
    if each.default is not None:
        return (
            {"true": "True", "false": "False"}.get(each.default, each.default)
            if each.type_name != "string"
            else f'"{each.default}"'
        )
    if each.is_array:
        return "()"
    if each.type_name == "records":
        return "None" if each.nullable else 'b""'
    if each.is_struct:
        return f"{each.type_name}()"
    return EMPTY_VALUES.get(each.type_name, "0")


def _modules() -> Iterator[tuple[Path, str]]:
    for path in sorted(SCHEMA_DIRECTORY.glob("*/*.schema")):
        package, module = path.parent.name, path.stem
        yield PROTOCOL_DIRECTORY / package / f"{module}.py", module_source(package, module)


def _stale() -> Iterator[tuple[Path, str | None]]:
    """What is not fresh: a module and what it should hold, or None for a module that has no table."""
    written = dict(_modules())
    for path, source in written.items():
        if not path.exists() or path.read_text(encoding="utf-8") != source:
            yield path, source
    for package in {path.parent for path in written}:
        for path in sorted(package.glob("*.py")):
            if path not in written and path.name != "__init__.py":
                yield path, None


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the message classes from the schema tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when something is not fresh")
    check = parser.parse_args().check
    stale = list(_stale())
    for path, source in stale:
        name = path.relative_to(PROTOCOL_DIRECTORY)
        if check:
            print(f"{name} is not what its table says; run tools/generate_protocol.py", file=sys.stderr)
        elif source is None:
            path.unlink()
            print(f"removed {name}")
        else:
            path.write_text(source, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
