"""Makes the seeds the fuzzers start from: real batches and messages, small files, and what should be near a fault.

python -m tests.fuzz.make_seeds        writes them into tests/fuzz/seeds, beside those that were found
"""

import importlib
import struct
from collections.abc import Iterator
from uuid import UUID

from msgspec.structs import replace

from ottla.client.admin.pushed_metrics import PushedMetrics
from ottla.client.consuming.group_protocol import Subscription, encode_assignment, encode_subscription
from ottla.gateways.kafka.apis import APIS
from ottla.groups.record_format import encode
from ottla.groups.records import CommittedOffset, GroupRecord, GroupSnapshot, MemberSnapshot, OffsetRecord
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_offsets, build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.message import ApiMessage, Message
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import FieldSchema, StructSchema
from ottla.storage.meta_properties import MetaProperties, format_meta_properties
from ottla.storage.offset_checkpoint import format_checkpoint
from ottla.storage.partition_metadata import format_partition_metadata
from ottla.storage.producer_snapshot import encode_snapshot
from ottla.storage.producer_state import ProducerBatch, ProducerState
from ottla.storage.transaction_index import AbortedTransaction
from ottla.transactions.record_format import encode as encode_transaction_record
from ottla.transactions.records import TransactionRecord
from ottla.transactions.transaction import Transaction
from ottla.transactions.transaction_state import TransactionState
from tests.fuzz import seed_files
from tests.fuzz.targets.logins import ISSUER as TOKEN_ISSUER
from tests.fuzz.targets.logins import TOKEN
from tests.fuzz.targets.messages import MESSAGES, id_of
from tests.fuzz.targets.requests import RAW, TOPIC, TOPIC_ID
from tests.fuzz.targets.small_files import BASE_OFFSET
from tests.fuzz.targets.strangers import (
    AUTHENTICATE,
    ENVELOPE,
    FRAME,
    HANDSHAKE,
    SECOND_MESSAGE,
    introduction,
    said,
)
from tests.tokens import jwks
from tests.unit.native.independent_codec import CODECS, HEADER_BYTES, pack
from tests.unit.protocol import reference_codec
from tests.unit.protocol import test_otlp_metrics as otlp
from tests.unit.protocol.message_strategy import table_of

NOW_MS = 1_700_000_000_000
Seeds = Iterator[tuple[str, bytes]]


def records(count: int) -> list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Records with every part there and not there."""
    headers: list[tuple[str, bytes | None]] = [("trace", b"\x01\x02"), ("none", None)]
    return [
        (
            NOW_MS + index,
            b"key" if index % 2 else None,
            None if index % 5 == 4 else b"value" * index,
            headers[: index % 3],
        )
        for index in range(count)
    ]


def plain_batches() -> Seeds:
    """Runs of batches, in every codec, of every kind of producer."""
    for codec in CODECS:
        yield f"codec-{codec}", bytes(build_batch(records(6), codec=codec))
    idempotent = build_batch(records(2), producer_id=9, producer_epoch=1, base_sequence=5, is_transactional=True)
    yield "idempotent", bytes(idempotent)
    marker = build_batch([(NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\7", [])], producer_id=9, is_control=True)
    yield "control", bytes(marker)
    yield "gaps", bytes(build_batch(records(3), base_offset=100, offsets=[100, 104, 109]))
    stamped = build_batch(records(2))
    assign_offsets(stamped, 40, 3, NOW_MS)
    yield "log-append-time", bytes(stamped)
    yield "run", bytes(idempotent + stamped + marker)
    yield "torn", bytes(idempotent + stamped)[:-7]


def batch() -> Seeds:
    """How to look at them varies."""
    for name, run in plain_batches():
        yield name, b"\x00" + run
    yield "sealed-control-limited", b"\x0f" + dict(plain_batches())["run"]


def records_seeds() -> Seeds:
    """With and without a budget; and payloads to be compressed in the target."""
    for name, run in plain_batches():
        yield name, b"\x06" + run
    yield "sealed", b"\x07" + dict(plain_batches())["codec-0"]
    yield "no-budget", b"\x00" + dict(plain_batches())["codec-3"]
    for codec in CODECS[1:]:
        plain = bytearray(build_batch(records(4)))
        plain[22] |= codec
        yield f"to-compress-{codec}", b"\x0e" + bytes(plain)


def codec() -> Seeds:
    """What other libraries compress, and frames with all that a format allows."""
    text = b"All that is gold does not glitter. " * 9
    for each in CODECS:
        yield f"of-others-{each}", bytes([each, 0x01, 0x00]) + pack(each, text)
        yield f"to-compress-{each}", bytes([each | 8, 0, 0]) + text
    for each in CODECS[1:]:
        yield f"bomb-{each}", bytes([each, 0x00, 0x10]) + pack(each, bytes(40_000))
    yield "gzip-members", b"\x01\x01\x00" + pack(1, b"one") + pack(1, b"two")
    yield "lz4-frames", b"\x03\x01\x00" + pack(3, b"one") + pack(3, b"two")
    yield "snappy-bare", b"\x02\x01\x00" + pack(2, text)[20:]


def produced() -> Seeds:
    """As they came, opened, and kept in each codec; with enough to open them and with too little."""
    for codec in CODECS:
        one = bytes(build_batch(records(6), codec=codec))
        yield f"closed-{codec}", b"\x78\xff" + one
        yield f"keyless-{codec}", b"\x7e\xff" + one
        yield f"opened-{codec}", b"\x7c\xff" + one
        yield f"kept-{codec}", bytes([0x44 | (codec + 1) % 5 << 3]) + b"\xff" + one
        yield f"limited-{codec}", b"\x44\x00" + one
    late = build_batch([(NOW_MS + 10**9 * (index == 1), b"key", b"", []) for index in range(3)], codec=CODECS[4])
    yield "late", b"\x7c\xff" + bytes(late)
    yield "sealed-two", b"\x79\xff" + bytes(build_batch(records(1))) * 2


def round_trip() -> Seeds:
    """Records described in bytes."""
    record = bytes([0b1111, 0, 7, 3]) + b"key" + b"\x05value" + b"\x01a\x01b" + b"\x01c" + b"\x01d\x01e"
    wide = bytes([0b10001, 255]) + (1 << 60).to_bytes(8, "big") + b"\x01k"
    for each in CODECS:
        yield f"codec-{each}", bytes([each]) + record + wide + record


def varint() -> Seeds:
    """Numbers at the ends of their widths."""
    for number in (0, 127, 128, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, 1 << 64):
        yield str(number), reference_codec.unsigned_varint(number) + b"rest"


def filled(message_class: type[Message], version: int) -> Message:
    """A message that says something in every field that the version has."""
    table = table_of(message_class)
    module = importlib.import_module(message_class.__module__)

    def struct_of(struct: StructSchema) -> Message:
        values = {}
        for each in struct.fields:
            if version in each.versions:
                value = (
                    struct_of(table.structs[each.type_name]) if each.is_struct else value_of(struct.name, each, version)
                )
                values[each.attribute] = (value,) if each.is_array else value
        message: Message = getattr(module, struct.name)(**values)
        return message

    return struct_of(table.structs[message_class.__name__])


TEXTS = {"member_id": "", "group_id": "g", "group": "g", "groups": "g", "groups_names": "g", "key": "g"}
TEXTS |= {"coordinator_keys": "g", "value": "60000", "host": "/h", "protocol_type": "consumer"}
NUMBERS = {"acks": 1, "max_wait_ms": 0, "replication_factor": 1, "resource_type": 2, "session_timeout_ms": 10_000}
NUMBERS |= {"replica_id": -1, "current_leader_epoch": -1, "leader_epoch": 0, "generation_id": -1, "index": 0}
NUMBERS |= {"generation_id_or_member_epoch": -1, "committed_leader_epoch": -1, "fetch_offset": 0, "timestamp": -1}
NUMBERS |= {"session_id": 0, "session_epoch": -1, "config_operation": 0, "num_partitions": 1, "producer_id": -1}
NUMBERS |= {"producer_epoch": -1, "partition_max_bytes": 1 << 20, "max_bytes": 1 << 20, "transaction_timeout_ms": 1000}


def value_of(struct: str, each: FieldSchema, version: int) -> object:
    """A value that makes sense where there is one: the names that the broker of the target knows, a whole batch."""
    if each.attribute in {"transactional_id", "group_instance_id"} and each.nullable and version in each.nullable:
        return None
    match each.type_name:
        case "string":
            is_config = "Config" in struct and each.attribute in {"name", "configuration_keys"}
            return TEXTS.get(each.attribute, "retention.ms" if is_config else TOPIC)
        case "records":
            return bytes(build_batch(records(2)))
        case "bytes":
            return b"\0\1\0\0\0\1\0\7flights\0\0\0\0"
        case "bool":
            return True
        case "uuid":
            return TOPIC_ID
        case "float64":
            return 0.5
    return NUMBERS.get(each.attribute, 0 if "partition" in each.attribute else 1)


def messages() -> Seeds:
    """Every message with something in every field, in its last version."""
    for message_class in MESSAGES:
        versions = table_of(message_class).messages[message_class.__name__].versions
        body = filled(message_class, versions.last).encode(versions.last)
        start = id_of(message_class).to_bytes(2, "big") + bytes([versions.last - versions.first])
        yield message_class.__name__, start + body


def requests() -> Seeds:
    """Every API that is served, filled and empty, and a frame as it is."""
    for api in APIS.values():
        if api.key >= RAW:
            request = filled(api.request_type, api.max_version)
            assert isinstance(request, ApiMessage)
            yield f"{api.key.name.lower()}-raw", bytes([RAW]) + encode_request(77, None, request, api.max_version)[4:]
            continue
        for version in {api.min_version, api.max_version}:
            start, name = bytes([api.key, version - api.min_version]), f"{api.key.name.lower()}-{version}"
            yield name, start + filled(api.request_type, version).encode(version)
        yield f"{api.key.name.lower()}-empty", start + api.request_type().encode(version)
    yield "raw", bytes([RAW]) + bytes.fromhex("001200030000000100016100016100016100")


def single_fetch() -> Seeds:
    """Requests of one partition in each form there is, and what is near to one."""
    for version in (4, 5, 7, 9, 11, 12, 13, 15, 18):
        named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
        topic = FetchTopic(**named, partitions=(FetchPartition(partition=1, fetch_offset=5, partition_max_bytes=4096),))
        plain = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=(topic,))
        shapes = {
            "plain": plain,
            "committed": replace(plain, isolation_level=1),
            "isolation-2": replace(plain, isolation_level=2),
            "two-topics": replace(plain, topics=(topic, topic)),
            "two-partitions": replace(plain, topics=(replace(topic, partitions=topic.partitions * 2),)),
        }
        if version >= 7:
            shapes["new-session"] = replace(plain, session_epoch=0)
            shapes["session"] = FetchRequest(session_id=5, session_epoch=2)
        if version >= 11:
            shapes["rack"] = replace(plain, rack_id="r")
        if version < 15:
            shapes["replica"] = replace(plain, replica_id=2)
        start = bytes([version - FetchRequest.MIN_VERSION])
        for name, request in shapes.items():
            yield f"{name}-{version}", start + encode_request(77, "fuzz", request, version)[8:]
    yield "raw", b"\xff" + encode_request(77, None, FetchRequest(), 12)[4:]


def single_produce() -> Seeds:
    """Requests to one partition in each form there is, and what is near to one."""
    one = bytes(build_batch(records(2)))
    for version in (3, 5, 7, 8, 9, 12, 13):
        named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC}
        data = PartitionProduceData(index=1, records=one)
        topic = TopicProduceData(**named, partition_data=(data,))
        shapes = {
            "plain": ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,)),
            "acks-2": ProduceRequest(acks=2, topic_data=(topic,)),
            "transactional": ProduceRequest(transactional_id="t", acks=-1, topic_data=(topic,)),
            "two-topics": ProduceRequest(acks=1, topic_data=(topic, topic)),
            "two-partitions": ProduceRequest(acks=1, topic_data=(replace(topic, partition_data=(data, data)),)),
        }
        start = bytes([version - ProduceRequest.MIN_VERSION])
        for name, request in shapes.items():
            yield f"{name}-{version}", start + encode_request(77, "fuzz", request, version)[8:]
    yield "raw", b"\xff" + encode_request(77, None, ProduceRequest(), 9)[4:]
    yield "other-api", b"\xff" + bytes.fromhex("001200030000000100016100016100016100")


def strangers() -> Seeds:
    """Who does not know the secret and tries all the same."""
    proof = bytes(range(64))
    hand, first, second = (HANDSHAKE, b""), (AUTHENTICATE, introduction()), (SECOND_MESSAGE, proof)
    create = encode_request(1, None, CreateTopicsRequest((CreatableTopic("evil", 1, 1),)), 7)[4:]
    yield "guess", said(hand, first, second, (ENVELOPE, create))
    yield "twice", said(hand, first, second, hand, first, second)
    yield "no-handshake", said(first, second)
    yield "no-first", said(hand, second)
    yield "first-twice", said(hand, first, first)
    yield "other-cluster", said(hand, (AUTHENTICATE, introduction(cluster="another")))
    yield "other-broker", said(hand, (AUTHENTICATE, introduction(to=3)))
    yield "itself", said(hand, (AUTHENTICATE, introduction(broker_id=2)))
    yield "acts-as", said(hand, (AUTHENTICATE, introduction().replace(b"n,,", b"n,a=3,")), second)
    yield "binding", said(hand, (AUTHENTICATE, introduction().replace(b"n,,", b"p=tls-unique,,")))
    yield "short-proof", said(hand, first, (SECOND_MESSAGE, b""))
    yield "plain", said((HANDSHAKE, b"PLAIN"), (AUTHENTICATE, b"\0user\0secret"))
    yield "envelope", said((ENVELOPE, create), (ENVELOPE, b""), (ENVELOPE, bytes(40)))
    for request, version in (
        (BrokerHeartbeatRequest(1, 5, want_shut_down=True), 2),
        (AlterPartitionRequest(1, 5), 3),
        (AllocateProducerIdsRequest(1, 5), 0),
    ):
        yield type(request).__name__, said((FRAME, encode_request(1, None, request, version)[4:]), hand, first)


def logins() -> Seeds:
    """Tokens, good and bad, and the messages that they come in."""
    token = TOKEN.encode()
    header, claims, signature = token.split(b".")
    for name, each in {
        "token": token,
        "no-signature": header + b"." + claims + b".",
        "other-claims": header + b"." + header + b"." + signature,
        "none": b"eyJhbGciOiJub25lIn0." + claims + b".",
        "no-parts": b"..",
    }.items():
        yield f"oauth-{name}", b"\0n,,\x01auth=Bearer " + each + b"\x01\x01"
        yield f"signed-{name}", b"\x01" + each
        yield f"unsigned-{name}", b"\x02" + each
    yield "oauth-acts-as", b"\0n,a=bob=2C,\x01auth=Bearer " + token + b"\x01a=b\x01\x01"
    yield "keys", b"\x03" + jwks(TOKEN_ISSUER)
    yield "no-keys", b"\x03" + b'{"keys":[{"kty":"oct","k":"AA"},{"kty":"RSA","n":"AQ","e":"AQAB"}]}'
    yield "plain", b"\x04\0alice\0secret"
    yield "plain-wrong", b"\x04bob\0alice\0secret"


def frames() -> Seeds:
    """Frames in one piece, in small pieces, and one that is too long."""
    small = b"".join(struct.pack(">i", size) + bytes(size) for size in (0, 1, 5, 300))
    yield "whole", b"\x00" + small
    yield "bytewise", b"\x01\x01" + small
    yield "large", b"\x02\x20\x03" + struct.pack(">i", 3000) + bytes(3000) + small
    yield "too-long", b"\x00" + small + b"\x7f\xff\xff\xff"
    yield "negative", b"\x01\x05" + b"\xff\xff\xff\xff"


def group_records() -> Seeds:
    """Offsets and groups as they stand in the topic, what members send, what leaders send."""
    committed = CommittedOffset(
        offset=7, leader_epoch=1, metadata="m", commit_timestamp_ms=NOW_MS, expire_timestamp_ms=None, topic_id=TOPIC_ID
    )
    member = MemberSnapshot(
        member_id="m-1",
        instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=2,
        subscription=b"s",
        assignment=b"a",
    )
    snapshot = GroupSnapshot(
        protocol_type="consumer",
        generation_id=3,
        protocol_name="range",
        leader_id="m-1",
        state_since_ms=NOW_MS,
        members=(member,),
    )
    for name, record in (
        ("offset", OffsetRecord("g", TopicPartition("flights", 1), committed)),
        ("group", GroupRecord("g", snapshot)),
    ):
        key, value = encode(record)
        yield name, bytes([0, len(key)]) + key + (value or b"")
    owned = (TopicPartition("flights", 1),)
    yield "subscription", b"\x01" + encode_subscription(Subscription(("flights", "planes"), owned, 4, "r"))
    yield "assignment", b"\x02" + encode_assignment(owned)


def transactions() -> Seeds:
    """A record, and conversations: committed, aborted, one that times out; a log with a state that nobody stores."""
    transaction = Transaction(
        producer_id=100,
        producer_epoch=3,
        timeout_ms=60_000,
        updated_ms=NOW_MS,
        state=TransactionState.ONGOING,
        partitions={"orders": frozenset({0, 2})},
        start_ms=NOW_MS,
        previous_producer_id=100,
        client_version=2,
    )
    begin, add, commit, abort, markers = b"\x00\x01", b"\x01\x06", b"\x04\x04", b"\x04\x05", b"\x06\x00"
    yield "commit", b"\x01" + begin + add + commit + markers + add + abort + markers
    yield "time-out", b"\x01" + begin + add + b"\x07\x04" + markers + b"\x06\x02" + b"\x08\x01" + markers
    yield "fenced", b"\x01" + begin + add + begin + markers + begin + b"\x04\x20"
    for name, state in (("prepared", TransactionState.PREPARE_COMMIT), ("found-state", TransactionState.DEAD)):
        key, value = encode_transaction_record(TransactionRecord("t", replace(transaction, state=state)))
        assert value is not None
        content = bytes([len(key)]) + key + value
        yield name, b"\x00" + content
        yield f"{name}-log", b"\x02" + len(content).to_bytes(2, "big") + content + begin + add + commit + markers


def small_files() -> Seeds:
    """One of each file."""
    state = ProducerState(9, 1)
    state.add(1, ProducerBatch(0, 4, 100, 104, NOW_MS))
    state.add(1, ProducerBatch(5, 5, 105, 105, NOW_MS))
    aborted = (
        AbortedTransaction(9, BASE_OFFSET + 1, BASE_OFFSET + 5, BASE_OFFSET + 2),
        AbortedTransaction(8, BASE_OFFSET + 2, BASE_OFFSET + 7, BASE_OFFSET + 8),
    )
    files = (
        ("offset-index", struct.pack(">iiii", 7, 0, 19, 4310)),
        ("time-index", struct.pack(">qiqi", NOW_MS, 7, NOW_MS + 1, 19)),
        ("leader-epochs", format_checkpoint([(0, 0), (2, 40), (3, 91)])),
        ("offset-checkpoint", format_checkpoint([("orders", 0, 4711), ("orders", 1, 815)])),
        ("partition-metadata", format_partition_metadata(TOPIC_ID)),
        ("meta-properties", b"# made\n" + format_meta_properties(MetaProperties("4L6g3nShT", 1, UUID(int=5)))),
        ("snapshot", encode_snapshot([state])),
        ("properties", b"# c\nlog.dirs = /var\\\n  /lib\nname:caf\\u00e9\\t\nflag\n"),
        ("transaction-index", b"".join(each.encode() for each in aborted)),
    )
    assert BASE_OFFSET
    for index, (name, content) in enumerate(files):
        yield name, bytes([index]) + content


def cli_text() -> Seeds:
    """One of each."""
    texts = (
        b'{"key": "k", "value": {"a": [1, null]}, "headers": [["h", null], ["i", {"base64": "AAE="}]], "timestamp": 5}',
        b"k:v\nno key\n\nrest",
        rb"%t %p %o %k=%v\n%h \x00",
        b"PLAINTEXT://a:9092,[::1]:1,b",
        b"PLAINTEXT://[::1]:9092",
        b"localhost:9092",
        b"2024-01-02T03:04:05.678+01:00",
        b"log.dirs=/x\nnum.partitions=3",
    )
    names = ("json", "lines", "format", "listeners", "endpoint", "address", "position", "settings")
    for index, (name, text) in enumerate(zip(names, texts, strict=True)):
        yield name, bytes([index]) + text


def client_metrics() -> Seeds:
    """One push in each codec, and one record."""
    attribute = otlp.text_attribute(7, "node", "1")
    metrics = otlp.metrics_data(
        otlp.sized(1, b"a.gauge")
        + otlp.sized(3, b"ms")
        + otlp.sized(5, otlp.sized(1, otlp.double(4, 1.5) + attribute)),
        otlp.sized(1, b"a.sum") + otlp.sized(7, otlp.sized(1, otlp.fixed(6, -7)) + b"\x10\x01"),
        otlp.sized(1, b"a.time") + otlp.sized(9, otlp.sized(1, otlp.fixed(4, 3) + otlp.double(5, 0.25))),
    )
    yield "metrics", b"\x00" + metrics
    for codec in CODECS[1:]:
        yield f"codec-{codec}", bytes([codec]) + pack(codec, metrics)
    push = PushedMetrics("id", "etl", "librdkafka", "2.16.1", "127.0.0.1", 4711, 1, "zstd", True, 0, b"")
    yield "record", b"\x05" + b"\0".join([b"id", *(text for _, text in push.headers)])


def log_dump() -> Seeds:
    """One of each file, batches of both kinds of topics."""
    contents = {name: data[1:] for name, data in small_files()}
    of_groups = dict(group_records())
    key_bytes = of_groups["group"][1]
    key, value = of_groups["group"][2 : 2 + key_bytes], of_groups["group"][2 + key_bytes :]
    for name, run in plain_batches():
        yield f"log-{name}", b"\x00\x01" + run
    yield "log-json", b"\x00\x03" + dict(plain_batches())["run"]
    yield "offsets", b"\x01\x01" + bytes(build_batch([(NOW_MS, key, value, [])]))
    files = (
        *("offset-index", "time-index", None, "snapshot", "leader-epochs", "partition-metadata", "offset-checkpoint"),
        "meta-properties",
    )
    for index, file in enumerate(files, start=2):
        content = struct.pack(">hqqqq", 0, 9, 1, 2, 3) if file is None else contents[file]
        yield file or "transaction-index", bytes([index, 0]) + content


def recovery() -> Seeds:
    """A segment, and one that ends within a batch."""
    run = bytearray()
    for number in range(4):
        one = build_batch(records(2))
        assign_offsets(one, 2 * number, 0)
        run += one
    yield "whole", b"\x00" + bytes(run)
    yield "torn", b"\x00" + bytes(run[:-5])
    yield "sealed", b"\x01" + bytes(run)
    yield "zeros", b"\x00" + bytes(run) + bytes(HEADER_BYTES)


def nsq_commands() -> Seeds:
    """Commands in one piece and in several, and compressed."""
    import zlib

    from ottla.gateways.nsq.layers import SnappyLayer

    commands = (
        b'  V2IDENTIFY\n\0\0\0\x1f{"client_id":"a","snappy":true  }PUB t\n\0\0\0\1xPUB t\n\0\0\0\1y'
        b"MPUB t#ephemeral\n\0\0\0\x0e\0\0\0\2\0\0\0\1a\0\0\0\1bDPUB t 100\n\0\0\0\1z"
        b"SUB t c\nRDY 5\nFIN 0000000000000001\nFIN 0000000000000002\nREQ 0000000000000003 10\n"
        b"TOUCH 0000000000000004\nFIN 000000000000000X\nNOP\r\nCLS\nRDY 9\n"
    )
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    yield "plain", b"\0\0" + commands
    yield "pieces", b"\0\5\1\2\3\4\5" + commands
    yield "snappy", b"\1\2\4\6" + SnappyLayer().sent(commands)
    yield "deflate", b"\2\1\3" + deflate.compress(commands) + deflate.flush(zlib.Z_SYNC_FLUSH)
    yield "refused", b"\0\1\2" + b"  V2PUB bad$topic\n\0\0\0\1x"
    yield "options", b'\0\0{"heartbeat_interval":-1,"sample_rate":5,"deflate":true,"deflate_level":9,"tls_v1":true}'


def redis_commands() -> Seeds:
    """Commands of a Redis client, whole and in pieces, and lines."""
    added = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$4\r\na\r\nb\r\n"
    yield "array", b"\x00" + added * 2
    yield "pieces", b"\x02\x01\x03" + added
    yield "lines", b"\x00PING\r\nXADD s 5-* 'a b' \"\\x00\\n\"\n"
    yield "options", b"\x00XADD NOMKSTREAM MAXLEN ~ 10 LIMIT 5\r\nX MINID = 5-(1 IDMP p i\r\n"
    yield "glob", b"\x00h[a-c]*l?o\\* hallo\r\n"


def share_reads() -> Seeds:
    """What brokers ask and answer, and what only a broken one would."""
    from ottla.broker import share_read_messages as messages
    from tests.fuzz.targets.share_reads import ANSWERED, ASKED, said

    wanted = [messages.Wanted("a", 2, 1_000), messages.Wanted("b", 5, 1_000)]
    take = messages.Take(1, 1, "c", UUID(int=1).bytes, 0, 1_000, wanted)
    kinds = [messages.Settlement(1, "a", [(0, 0, kind)], 1_000, 0, 0, 0) for kind in range(5)]
    later = messages.Settlement(1, "b", [(2, 3, 2)], 1_000, 500, NOW_MS, 10)
    asked = (
        take,
        messages.Settle(1, kinds),
        messages.Settle(1, [later]),
        messages.Store(1, [1, 7]),
        messages.Watch(1, 5_000, is_first=True),
        messages.Watch(1, 0),
        messages.Leave(1, [(1, "a"), (9, "x")], [1, 9]),
    )
    yield "asked", said(*((ASKED, messages.encode(each)) for each in asked))
    yield "anew", said(*((ASKED, messages.encode(replace(each, incarnation=at))) for at, each in enumerate(asked)))
    for each in (
        *asked,
        messages.Begin("c", [(UUID(int=1).bytes, 0, -1)]),
        messages.Readers("c", bytes(16)),
        messages.Look("c", bytes(16)),
    ):
        yield type(each).__name__.lower(), said((ASKED, messages.encode(each)))
    far = [messages.Settlement(1, "a", [(0, (1 << 63) - 1, 1), (5, 0, 4)], (1 << 48) - 1, (1 << 48) - 1, 0, 0)]
    yield "far", said((ASKED, messages.encode(take)), (ASKED, messages.encode(messages.Settle(1, far))))
    batch = bytes(build_batch(records(2)))
    for name, runs in {"fits": [(0, 2, 1)], "too-many": [(0, 1 << 62, 1)], "backwards": [(2, 0, 1)]}.items():
        yield name, said((ANSWERED, messages.encode(messages.Taken(0, "", [messages.Part(batch, runs)]))))
    yield "parts", said((ANSWERED, messages.encode(messages.Taken(0, "", [messages.Part(), messages.Part()]))))
    yield "refused", said((ANSWERED, messages.encode(messages.Taken(-5, "no", []))))
    timed_out = [("r", [(0, 1 << 62, 1)]), ("x", [])]
    events = [messages.Event(1, timed_out=timed_out), messages.Event(2, is_lost=True), messages.Event(1 << 60)]
    yield "events", said((ANSWERED, messages.encode(events)), (ANSWERED, messages.encode([0, 12_345])))
    begun = (messages.Begun(0, None, [(0, None)]), messages.Begun(0, "m", []), messages.Begun(9_999, None, [(7, "m")]))
    far_out = [messages.Event(1, timed_out=[("r", [(0, (1 << 63) - 1, 1)])])]
    yield "events-far", said((ANSWERED, messages.encode(far_out)))
    of_no_text = b"\x93\xa7readers\xa1\xff\xc4\x10" + bytes(16)
    yield "no-text", said((ASKED, of_no_text), (ANSWERED, b"\x93\x00\xa1\xff\x90"))
    yield "begun", said(*((ANSWERED, messages.encode(each)) for each in begun))


TARGETS = {
    "batch": batch,
    "batches": records_seeds,
    "cli_text": cli_text,
    "client_metrics": client_metrics,
    "codec": codec,
    "frames": frames,
    "group_records": group_records,
    "log_dump": log_dump,
    "logins": logins,
    "messages": messages,
    "records": records_seeds,
    "recovery": recovery,
    "nsq_commands": nsq_commands,
    "redis_commands": redis_commands,
    "requests": requests,
    "share_reads": share_reads,
    "produced": produced,
    "round_trip": round_trip,
    "single_fetch": single_fetch,
    "single_produce": single_produce,
    "small_files": small_files,
    "strangers": strangers,
    "transactions": transactions,
    "varint": varint,
}


def main() -> None:
    """Write them all."""
    known = seed_files.targets()
    for target, seeds in TARGETS.items():
        kept = seed_files.read(target) if target in known else {}
        seed_files.write(target, kept | dict(seeds()))


if __name__ == "__main__":
    main()
