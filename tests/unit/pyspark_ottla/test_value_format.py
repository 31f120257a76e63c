"""Values are decoded into columns, and one that cannot be keeps its row, with the reason."""

from __future__ import annotations

import io
import json
import pickle
import struct
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_ottla import DefaultSource
from pyspark_ottla.batch_reader import OttlaReader
from pyspark_ottla.options import OptionError
from pyspark_ottla.read_options import ReadOptions
from pyspark_ottla.schema_registry import RegistryError

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}
VARIANT = '{"type":"struct","fields":[{"name":"n","type":"variant","nullable":true,"metadata":{}}]}'
NESTED: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "n", "type": ["int", "null"]}]},
            },
        },
    ],
}
ORDER = {
    "id": 2**40,
    "note": None,
    "price": Decimal("12.50"),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    "kind": "B",
    "tags": {"x": [1, 2]},
    "lines": [{"n": 1}, {"n": None}],
}
ORDER_ROW = {**ORDER, "tags": [("x", [1, 2])]}


def avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def rows(log: Any, records: list[tuple], **given: str) -> list[dict[str, Any]]:
    """What Spark gets of these records, in batches of exactly the types that it was told."""
    [partition] = log.create("t")
    partition.append(*records)
    told = DefaultSource({**BASE, **given}).schema()
    reader = pickle.loads(pickle.dumps(OttlaReader(ReadOptions.of({**BASE, **given}, streaming=False))))
    found: list[dict[str, Any]] = []
    for task in reader.partitions():
        for batch in reader.read(task):
            assert batch.schema.equals(to_arrow_schema(told, timezone="UTC"))
            found += batch.to_pylist()
    return found


def values(*given: bytes | None) -> list[tuple]:
    return [(0, None, value, ()) for value in given]


def test_avro_values_become_columns_of_sparks_types(log):
    [row] = rows(log, values(avro(NESTED, ORDER)), valueFormat="avro", valueSchema=json.dumps(NESTED))
    assert row["data"] == ORDER_ROW
    assert row["error"] is None
    assert row["value"] == avro(NESTED, ORDER)
    type_of = (
        DefaultSource({**BASE, "valueFormat": "avro", "valueSchema": json.dumps(NESTED)}).schema()["data"].dataType
    )
    assert type_of.simpleString() == (
        "struct<id:bigint,note:string,price:decimal(6,2),at:timestamp,kind:string,tags:map<string,array<int>>,"
        "lines:array<struct<n:int>>>"
    )


def test_what_is_not_of_the_schema_keeps_its_row_with_the_reason(log):
    good = avro(NESTED, ORDER)
    given = {"valueFormat": "avro", "valueSchema": json.dumps(NESTED), "includeHeaders": "true"}
    found = rows(log, values(good, good[:-3], good + b"xy", b"\xff" * 20, None, good), **given)
    assert [row["data"] is not None for row in found] == [True, False, False, False, False, True]
    assert [row["offset"] for row in found] == [*range(6)]
    reasons = [row["error"] for row in found]
    assert (reasons[0], reasons[4], reasons[5]) == (None, None, None)
    assert "the value ends before the record does" in reasons[1]
    assert reasons[2] == "2 bytes are left after the record"
    assert reasons[3]
    assert found[3]["value"] == b"\xff" * 20


def test_a_value_that_its_schema_allows_and_no_column_holds_keeps_its_row_too(log):
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    wide = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    found = rows(
        log,
        values(avro(wide, {"n": 2**40}), avro(schema, {"n": 1})),
        valueFormat="avro",
        valueSchema=json.dumps(schema),
    )
    assert [row["data"] for row in found] == [None, {"n": 1}]
    assert found[0]["error"]


def test_a_schema_may_be_a_file(log, tmp_path):
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(NESTED))
    [row] = rows(log, values(avro(NESTED, ORDER)), valueFormat="avro", valueSchema=str(path))
    assert row["data"]["id"] == 2**40


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"valueFormat": "json"}, "json needs option valueSchema: the columns as in id long"),
        ({"valueFormat": "json", "valueSchema": "order.ddl"}, "nor a file of them: expected a name before '.ddl'"),
        ({"valueFormat": "json", "valueSchema": '{"type": "strct"}'}, "not the columns of a struct"),
        ({"valueFormat": "json", "valueSchema": "n interval"}, "'interval' is not a type"),
        ({"valueFormat": "json", "valueSchema": VARIANT}, "variant cannot be read from JSON"),
        ({"valueFormat": "plain-json"}, "plain-json needs option valueSchema with fields"),
        ({"valueFormat": "avro"}, "needs option valueSchema, or schemaRegistry"),
        ({"valueSchema": "{}"}, "option valueSchema needs option valueFormat"),
        ({"valueFormat": "avro", "valueSchema": "/nowhere"}, "'/nowhere' cannot be read"),
        ({"valueFormat": "avro", "valueSchema": '{"type": "recrd"}'}, "not an Avro schema"),
        ({"valueFormat": "avro", "valueSchema": '"long"'}, "must be a record, not bigint"),
        (
            {
                "valueFormat": "avro",
                "valueSchema": '{"type":"record","name":"R","fields":[{"name":"u","type":["int","string"]}]}',
            },
            "u is a union of 2 types besides null",
        ),
        (
            {
                "valueFormat": "avro",
                "valueSchema": '{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}',
            },
            "cannot be a column|contains itself",
        ),
        ({"valueFormat": "avro", "schemaRegistry": "localhost:8081"}, "write a URL as in http"),
        ({"valueFormat": "protobuf"}, "protobuf needs option valueSchema, a file that protoc"),
    ],
)
def test_a_mistake_is_told_when_the_frame_is_made(given, match):
    with pytest.raises(OptionError, match=match):
        DefaultSource({**BASE, **given}).schema()


def test_the_password_in_the_url_of_a_registry_is_not_repeated():
    given = {"valueFormat": "avro", "schemaRegistry": "localhost://user:pencil@host:8081"}
    with pytest.raises(OptionError, match="write a URL as in http") as told:
        DefaultSource({**BASE, **given}).schema()
    assert "pencil" not in str(told.value)


class Registry(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.answers.get(self.path)
        self.send_response(404 if found is None else 200 if isinstance(found, dict) else found)
        self.end_headers()
        self.wfile.write(json.dumps(found if isinstance(found, dict) else {"error_code": 40403}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.answers, Registry.asked = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    thread.join()
    server.server_close()


OLD = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}
NEW = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "more", "type": "string", "default": "-"}],
}


def test_each_value_is_read_by_the_schema_that_it_names_into_the_newest_of_the_subject(log, registry):
    guid = uuid.UUID(int=7)
    Registry.answers = {
        "/api/subjects/t-value/versions/latest": {"id": 2, "schema": json.dumps(NEW)},
        "/api/schemas/ids/1": {"schema": json.dumps(OLD)},
        "/api/schemas/ids/2": {"schema": json.dumps(NEW)},
        f"/api/schemas/guids/{guid}": {"schema": json.dumps(OLD)},
    }
    old, new = avro(OLD, {"id": 1, "gone": "x"}), avro(NEW, {"id": 2, "more": "y"})
    records = [
        *values(b"\0\0\0\0\1" + old, b"\0\0\0\0\2" + new, b"\0\0\0\0\1" + old),
        (0, None, old, [("__value_schema_id", b"\1" + guid.bytes)]),
        (0, None, new, [("other", b""), ("__value_schema_id", b"\0" + struct.pack(">i", 2))]),
        *values(new, b"\0\0\0\0\x09" + new, b"\0\0\0\0\x09" + new),
    ]
    found = rows(log, records, valueFormat="avro", schemaRegistry=registry)
    assert [row["data"] and (row["data"]["id"], row["data"]["more"]) for row in found] == [
        (1, "-"), (2, "y"), (1, "-"), (1, "-"), (2, "y"), None, None, None,
    ]  # fmt: skip
    assert "no schema id" in found[5]["error"]
    assert found[6]["error"] == "the registry does not know /schemas/ids/9"
    assert "headers" not in found[0]
    ids = [path for path in Registry.asked if "/schemas/" in path]
    assert len(ids) == len(set(ids)) == 4


def test_a_registry_that_is_broken_is_no_word_about_the_values(log, registry):
    Registry.answers = {"/api/schemas/ids/1": 500}
    given = {"valueFormat": "avro", "schemaRegistry": registry, "valueSchema": json.dumps(NEW)}
    with pytest.raises(RegistryError, match="answered 500 to /schemas/ids/1"):
        rows(log, values(b"\0\0\0\0\1" + avro(NEW, {"id": 1, "more": ""})), **given)


def test_a_subject_that_is_not_there_is_named(registry):
    with pytest.raises(OptionError, match="no subject 't-value'; set valueSubject or valueSchema"):
        DefaultSource({**BASE, "valueFormat": "avro", "schemaRegistry": registry}).schema()


@pytest.fixture
def order_descriptors(tmp_path: Path) -> tuple[str, Any]:
    """A descriptor set as protoc makes it, and the class of its message `shop.Order`."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    order = file.message_type.add(name="Order")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    for number, (name, type_, label, type_name) in enumerate(
        [
            ("id", field.TYPE_UINT64, field.LABEL_OPTIONAL, ""),
            ("body", field.TYPE_BYTES, field.LABEL_OPTIONAL, ""),
            ("kind", field.TYPE_ENUM, field.LABEL_OPTIONAL, ".shop.Kind"),
            ("at", field.TYPE_MESSAGE, field.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
            ("counts", field.TYPE_INT32, field.LABEL_REPEATED, ""),
            ("tags", field.TYPE_MESSAGE, field.LABEL_REPEATED, ".shop.Order.TagsEntry"),
        ],
        start=1,
    ):
        order.field.add(name=name, number=number, type=type_, label=label, type_name=type_name or None)
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    path = tmp_path / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[timestamp, file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(timestamp)
    pool.Add(file)
    return str(path), GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_values_become_columns_framed_or_not(log, order_descriptors, registry):
    path, order = order_descriptors
    message = order(id=2**63, body=b"\0", kind=1, counts=[1, 2], tags={"x": 2**40})
    message.at.FromJsonString("2026-01-02T03:04:05.678Z")
    plain = message.SerializeToString()
    given = {"valueFormat": "protobuf", "valueSchema": path, "valueMessage": "shop.Order"}
    expected = {
        "id": Decimal(2**63),
        "body": b"\0",
        "kind": "B",
        "at": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
        "counts": [1, 2],
        "tags": [("x", 2**40)],
    }
    found = rows(log, values(plain, b"", b"\xff\xff"), **given)
    assert found[0]["data"] == expected
    assert (found[1]["data"]["id"], found[1]["data"]["at"], found[1]["data"]["counts"]) == (0, None, [])
    assert found[2]["data"] is None
    assert "not of this message" in found[2]["error"]
    framed = values(b"\0\0\0\0\5\0" + plain, b"\0\0\0\0\5\2\0" + plain, plain)
    found = rows(log, framed, schemaRegistry=registry, **given)
    assert [row["data"] == expected for row in found] == [True, True, False]
    assert found[2]["error"]
    with pytest.raises(OptionError, match=r"no message 'shop.Oder' in valueSchema; it has .*shop.Order"):
        DefaultSource({**BASE, **given, "valueMessage": "shop.Oder"}).schema()


def test_the_source_is_asked_for_its_columns_by_the_schema(log):
    given = {**BASE, "valueFormat": "avro", "valueSchema": json.dumps(NEW)}
    source = DefaultSource(given)
    assert isinstance(source.schema()["data"].dataType, StructType)
    source.reader(source.schema())
