"""The schema tables: what every Kafka message looks like on the wire, in every version.

A table is a text file under `schemas/`, one per API or per family of records. `schemas/X/Y.schema` describes the
messages of the module `ottla.protocol.X.Y`, which `tools/generate_protocol.py` writes from it; the codec reads the
same table when a message is first used. A table reads like this::

    # Fetch: read record batches, for consumers and for followers.     the doc line
    api 1                                                              the API key, absent for records

    request FetchRequest  versions 4-18  flexible 12+                  a message and its versions
      ClusterId       string?           12+   default null, tag 0, ignorable
      MaxWaitMs       int32
      Topics          []FetchTopic                                     an array of structs,
        Topic         string            4-12  ignorable                whose fields stand below it, deeper

    struct ReplicaState                                                or apart, when several fields have its type
      ReplicaId       int32

A field is a name, a type, the versions that carry it (absent: all that carry the struct), and attributes:

* a type is a primitive, `[]` before the element type of an array, `?` after it when null is allowed in all versions;
* `nullable 7+`: null is allowed in these versions only;
* `default V`: the value a reader sees when the version does not carry the field (absent: 0, false, "", empty);
* `tag N`: a tagged field, written only when it is not its default (KIP-482);
* `ignorable`: a value other than the default may be dropped in versions that do not carry the field. Without it such
  a value is refused;
* `inflexible`: a string in the old form with a two byte length even in flexible versions.

A message line is `request`, `response`, `key`, `value` or `data`, then a name, the versions, the first version in the
flexible form of KIP-482, and for coordinator records the record type (`type 3`).
"""

import re
from pathlib import Path

from msgspec import Struct, field

SCHEMA_DIRECTORY = Path(__file__).parent / "schemas"

PRIMITIVES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "string", "bytes", "records", "uuid"]
)
MESSAGE_KINDS = frozenset(["request", "response", "key", "value", "data"])
FIELD_ATTRIBUTES = frozenset(["nullable", "default", "tag", "ignorable", "inflexible"])


class VersionRange(Struct, frozen=True):
    """An inclusive range of versions."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class FieldSchema(Struct, frozen=True):
    """One field of a struct.

    `type_name` is a primitive or the name of a struct in the same table; `default` is the text of the table, None when
    it has none. `versions` is already narrowed to the versions of what contains the field.
    """

    name: str
    type_name: str
    is_array: bool
    versions: VersionRange
    nullable: VersionRange | None
    default: str | None
    tag: int | None
    ignorable: bool
    inflexible: bool

    @property
    def attribute(self) -> str:
        """The name of the Python attribute: `TopicId` is `topic_id`."""
        return snake_case(self.name)

    @property
    def is_struct(self) -> bool:
        return self.type_name not in PRIMITIVES


class StructSchema(Struct):
    """A named sequence of fields, in the order of the wire."""

    name: str
    fields: list[FieldSchema] = field(default_factory=list)


class MessageSchema(Struct):
    """A message: a struct with versions of its own. `record_type` is the type of a coordinator record."""

    kind: str
    struct: StructSchema
    versions: VersionRange
    flexible: VersionRange | None
    record_type: int | None = None

    @property
    def name(self) -> str:
        return self.struct.name


class SchemaTable(Struct):
    """Everything one file describes. `structs` holds the structs of all its messages by name, which is unique."""

    doc: str = ""
    api_key: int | None = None
    messages: dict[str, MessageSchema] = field(default_factory=dict)
    structs: dict[str, StructSchema] = field(default_factory=dict)


def snake_case(name: str) -> str:
    """`LastKnownElr` is `last_known_elr`, `KRaftVersion` is `kraft_version`."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def load(package: str, module: str) -> SchemaTable:
    """The table of the module `ottla.protocol.<package>.<module>`."""
    return parse((SCHEMA_DIRECTORY / package / f"{module}.schema").read_text(encoding="utf-8"))


def parse(text: str) -> SchemaTable:
    """Reads a table. Raises ValueError with the line when it is not well formed."""
    table = SchemaTable()
    reader = _Reader(table)
    for number, line in enumerate(text.splitlines(), 1):
        try:
            reader.read(line.rstrip())
        except (ValueError, IndexError, KeyError) as error:
            raise ValueError(f"line {number}: {line.strip()!r}: {error}") from error
    for struct in list(table.structs.values()):
        for each in struct.fields:
            if each.is_struct and each.type_name not in table.structs:
                raise ValueError(f"{struct.name}.{each.name}: no struct is called {each.type_name}")
    return table


class _Reader:
    """Reads a table line by line; a stack holds the indent, the struct and the versions that deeper lines belong to."""

    def __init__(self, table: SchemaTable) -> None:
        self._table = table
        self._message_versions = VersionRange(0, 0)
        self._open: list[tuple[int, str, VersionRange]] = []

    def read(self, line: str) -> None:
        if not line:
            return
        if line.startswith("#"):
            self._table.doc = line.removeprefix("#").strip()
        elif line.startswith("api "):
            self._table.api_key = int(line.split()[1])
        elif line.startswith("struct "):
            self._start(line.split()[1])
        elif line[0] != " ":
            self._read_message(line)
        else:
            self._read_field(line)

    def _start(self, name: str) -> StructSchema:
        if name in self._table.structs:
            raise ValueError(f"a second struct is called {name}")
        self._table.structs[name] = struct = StructSchema(name)
        self._open = [(0, name, self._message_versions)]
        return struct

    def _read_message(self, line: str) -> None:
        kind, name, *rest = line.split()
        if kind not in MESSAGE_KINDS:
            raise ValueError(f"{kind} is not a kind of message")
        attributes = dict(zip(rest[::2], rest[1::2], strict=True))
        self._message_versions = versions = _version_range(attributes["versions"], 0)
        flexible = None if attributes["flexible"] == "none" else _version_range(attributes["flexible"], versions.last)
        record_type = int(attributes["type"]) if "type" in attributes else None
        self._table.messages[name] = MessageSchema(kind, self._start(name), versions, flexible, record_type)

    def _read_field(self, line: str) -> None:
        indent = len(line) - len(line.lstrip())
        while self._open[-1][0] >= indent:
            self._open.pop()
        _, struct_name, struct_versions = self._open[-1]
        each = _field(line, struct_versions)
        struct = self._table.structs.setdefault(struct_name, StructSchema(struct_name))
        if any(other.name == each.name for other in struct.fields):
            raise ValueError(f"{struct_name} has a second field {each.name}")
        struct.fields.append(each)
        if each.is_struct:
            self._open.append((indent, each.type_name, each.versions))


def _field(line: str, struct_versions: VersionRange) -> FieldSchema:
    name, type_text, *rest = line.split()
    versions = struct_versions
    if rest and rest[0][0].isdigit():
        versions = _version_range(rest.pop(0), struct_versions.last)
    attributes = {words[0]: words[-1] for words in map(str.split, " ".join(rest).split(",")) if words}
    unknown = attributes.keys() - FIELD_ATTRIBUTES
    if unknown:
        raise ValueError(f"no field has the attribute {', '.join(sorted(unknown))}")
    nullable = versions if type_text.endswith("?") else None
    if "nullable" in attributes:
        nullable = _version_range(attributes["nullable"], versions.last)
    return FieldSchema(
        name=name,
        type_name=type_text.removeprefix("[]").removesuffix("?"),
        is_array=type_text.startswith("[]"),
        versions=versions,
        nullable=nullable,
        default=attributes.get("default"),
        tag=int(attributes["tag"]) if "tag" in attributes else None,
        ignorable="ignorable" in attributes,
        inflexible="inflexible" in attributes,
    )


def _version_range(text: str, last: int) -> VersionRange:
    """`3`, `3-7` or `3+`, which ends at `last`."""
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), last)
    first, _, until = text.partition("-")
    return VersionRange(int(first), int(until or first))
