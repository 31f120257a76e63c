"""The option `valueFormat`: the format of record values, and the source of their schema.

The options are read on the driver. It opens files and asks a registry, and executors get the result.
"""

import json
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.types import StringType, StructField, StructType

from pyspark_ottla.options import OptionError, Options
from pyspark_ottla.plain_json import PlainJson
from pyspark_ottla.schema_registry import REGISTRY_OPTIONS, Registry, registry_of

if TYPE_CHECKING:
    from pyspark_ottla.value_columns import ValueColumns

VALUE_OPTIONS = (
    "valueFormat",
    "valueSchema",
    "valueSubject",
    "valueMessage",
    "valueTimeZone",
    "valueTimestamps",
    *REGISTRY_OPTIONS,
)

DATA, ERROR = "data", "error"
UNITS = ("seconds", "milliseconds", "microseconds")


class ValueDecoder(Protocol):
    """Decodes the values of one read in one process; the id of a schema may stand in a header."""

    def decode(self, value: bytes, schema_id: bytes | None) -> object:
        """A value as Arrow takes it for the type of `data`. Raises ValueError with the reason."""
        ...


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """A format of values. Can be pickled and hashed: executors get it."""

    kind: str
    """`avro`, `json` or `protobuf`."""
    schema: bytes
    """The schema: for Avro as JSON, for JSON as Spark's DDL, for Protocol Buffers a FileDescriptorSet."""
    message: str
    """The full name of the message, with Protocol Buffers."""
    registry: Registry | None
    local_utc: bool = False
    """Whether times in JSON without an offset are UTC; otherwise they are refused."""
    unit: str | None = None
    """The unit of numbers in `timestamp` columns of JSON, such as `seconds`; None refuses numbers."""

    def columns(self) -> list[StructField]:
        """The added columns: the decoded struct, and the error."""
        return [StructField(DATA, self.data_type()), StructField(ERROR, StringType())]

    def data_type(self) -> StructType:
        """The type of `data`. Raises OptionError for a schema that cannot be read into columns."""
        if self.kind == "avro":
            from pyspark_ottla.avro_values import avro_struct

            return avro_struct(self.schema)
        if self.kind == "json":
            from pyspark_ottla.json_values import json_struct

            return json_struct(self.schema)
        from pyspark_ottla.protobuf_values import protobuf_struct

        return protobuf_struct(self.schema, self.message)

    def decoder(self) -> ValueDecoder:
        """A decoder for this process."""
        if self.kind == "avro":
            from pyspark_ottla.avro_values import AvroDecoder

            return AvroDecoder(self.schema, self.registry)
        if self.kind == "json":
            from pyspark_ottla.json_values import JsonDecoder, Times

            times = Times(UTC if self.local_utc else None, self.unit)
            return JsonDecoder(self.schema, framed=self.registry is not None, times=times)
        from pyspark_ottla.protobuf_values import ProtobufDecoder

        return ProtobufDecoder(self.schema, self.message, framed=self.registry is not None)

    def adder(self, schema: Any) -> "ValueColumns":
        """An object that adds the columns to record batches; the result has this schema."""
        from pyspark_ottla.value_columns import ValueColumns

        text = self.schema.decode("utf-8", "replace")
        plain = PlainJson.of(text, self.unit) if self.is_flat_json else None
        return ValueColumns(self, schema, None if plain is None else plain.adder(schema))

    @property
    def is_flat_json(self) -> bool:
        """Whether Arrow can decode the plain values of this schema."""
        return self.kind == "json" and self.registry is None


def value_format_of(options: Options) -> ValueFormat | PlainJson | None:
    """The format that the options set; None if values stay bytes. Raises OptionError and RegistryError."""
    kind = options.choice("valueFormat", ("raw", "json", "plain-json", "avro", "protobuf"), "raw")
    if kind == "plain-json":
        given = [name for name in VALUE_OPTIONS if name not in ("valueFormat", "valueSchema") and name in options]
        if given:
            raise OptionError(f"option {given[0]} is not for plain JSON: give the fields with option valueSchema")
        return PlainJson.required(options.text("valueSchema"))
    if kind == "raw":
        given = [name for name in VALUE_OPTIONS if name != "valueFormat" and name in options]
        if given:
            raise OptionError(f"option {given[0]} needs option valueFormat: avro, json or protobuf")
        return None
    registry = registry_of(options)
    zone = options.choice("valueTimeZone", ("none", "utc"), "none")
    if zone != "none" and kind != "json":
        raise OptionError("option valueTimeZone is for valueFormat json alone: other times have their zone")
    unit = options.choice("valueTimestamps", ("none", *UNITS), "none")
    if unit != "none" and kind != "json":
        raise OptionError("option valueTimestamps is for valueFormat json alone: other times have their unit")
    if kind == "protobuf":
        return _protobuf(options, registry)
    if kind == "json":
        text, counts = _struct_text(options.text("valueSchema")), None if unit == "none" else unit
        return ValueFormat("json", text, "", registry, local_utc=zone == "utc", unit=counts)
    schema = options.text("valueSchema")
    if schema is not None:
        return ValueFormat("avro", _avro_text(schema), "", registry)
    if registry is None:
        raise OptionError("option valueFormat: avro needs option valueSchema, or schemaRegistry to ask for it")
    subject = options.text("valueSubject") or _subject(options)
    return ValueFormat("avro", registry.latest(subject).encode(), "", registry)


def _avro_text(schema: str) -> bytes:
    text = schema if schema.lstrip().startswith(("{", "[", '"')) else _read(schema).decode("utf-8", "replace")
    try:
        json.loads(text)
    except ValueError as error:
        raise OptionError(f"option valueSchema: not an Avro schema in JSON, nor a file of one: {error}") from None
    return text.encode()


def _struct_text(schema: str | None) -> bytes:
    if schema is None:
        raise OptionError(
            "option valueFormat: json needs option valueSchema: the columns as in id long, name string, what"
            " frame.schema.json() gives, or a file of either"
        )
    try:
        return Path(schema).read_bytes()
    except (OSError, ValueError):
        return schema.encode()


def _protobuf(options: Options, registry: Registry | None) -> ValueFormat:
    path, message = options.text("valueSchema"), options.text("valueMessage")
    if path is None or message is None:
        raise OptionError(
            "option valueFormat: protobuf needs option valueSchema, a file that protoc --include_imports"
            " --descriptor_set_out=FILE made, and valueMessage, the message's full name (a registry has sources, which"
            " only protoc compiles)"
        )
    return ValueFormat("protobuf", _read(path), message, registry)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"option valueSchema: {path!r} cannot be read: {error.strerror}") from None


def _subject(options: Options) -> str:
    """The subject of the topic's values, by the registry's usual naming."""
    topics = [topic.strip() for topic in (options.text("subscribe") or "").split(",") if topic.strip()]
    if len(topics) != 1:
        raise OptionError("option valueSubject: name the subject of the schema that all topics are read into")
    return f"{topics[0]}-value"
