"""NSQ and Redis clients at a broker with an authorizer: they are User:ANONYMOUS, and may do what its ACLs allow."""

from __future__ import annotations

import http.client
import re
import struct
from collections.abc import Iterator

import msgspec
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.broker_process import BrokerProcess
from tests.redis_client import RawRedis, ReplyError
from tests.system.nsq_client import NsqClient, sized

SETTINGS = {
    "redis.listener": "127.0.0.1:0",
    "nsq.listener": "127.0.0.1:0",
    "nsq.http.listener": "127.0.0.1:0",
    "authorizer.class.name": "StandardAuthorizer",
}


def address(broker: BrokerProcess, face: str) -> tuple[str, int]:
    match = re.search(rf"{face} (\S+?):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return match[1], int(match[2])


def allow(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind,
        name,
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A stream, a topic with a channel, and rights of anonymous clients on what begins with `free-` alone."""
    data = tmp_path_factory.mktemp("secured") / "data"
    with BrokerProcess(data, {**SETTINGS, "super.users": "User:ANONYMOUS"}) as process:
        with RawRedis(address(process, "redis")) as redis:
            redis.call("XADD", "orders", "1-1", "n", "1")
            redis.call("XGROUP", "CREATE", "orders", "billing", "0")
        NsqClient(address(process, "nsq")).subscribe("clicks", "archive", 0).publish("clicks", b"one", b"two")
        topics = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE)
        acls = [allow(ResourceType.TOPIC, "free-", each) for each in topics]
        acls.append(allow(ResourceType.GROUP, "free-", AclOperation.READ))
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        for made in admin.create_acls(acls).values():
            made.result(60)
        process.stop()
        process.settings = SETTINGS
        process.start()
        yield process


REFUSED = """
XADD orders * n 2
XADD new * n 2
XADD orders NOMKSTREAM MAXLEN 1 * n 2
XDEL orders 1-1
XDELEX orders IDS 1 1-1
XTRIM orders MAXLEN 0
XSETID orders 9-9
XCFGSET orders IDMP-DURATION 5
XLEN orders
XLEN absent
XRANGE orders - +
XREVRANGE orders + -
XREAD STREAMS orders 0
XREAD BLOCK 1 STREAMS orders $
XREADGROUP GROUP billing me STREAMS orders >
XGROUP CREATE orders other 0
XGROUP CREATE new other 0 MKSTREAM
XGROUP SETID orders billing 0
XGROUP DESTROY orders billing
XGROUP CREATECONSUMER orders billing me
XGROUP DELCONSUMER orders billing me
XINFO STREAM orders
XINFO STREAM orders FULL
XINFO GROUPS orders
XINFO CONSUMERS orders billing
XACK orders billing 1-1
XACKDEL orders billing IDS 1 1-1
XNACK orders billing FAIL IDS 1 1-1
XPENDING orders billing
XCLAIM orders billing me 0 1-1
XAUTOCLAIM orders billing me 0 0
TYPE orders
EXISTS orders
TOUCH orders
DEL orders
UNLINK free-a orders
RENAME orders free-b
RENAME free-a orders
RENAMENX orders free-b
MOVE orders 1
COPY orders free-b
COPY free-a orders
COPY free-a new
COPY free-a free-b REPLACE
COPY free-a free-b DB 3
EXPIRE orders 0
PEXPIRE orders 0
EXPIREAT orders 1
PEXPIREAT orders 1
PERSIST orders
TTL orders
PTTL orders
EXPIRETIME orders
PEXPIRETIME orders
OBJECT ENCODING orders
MEMORY USAGE orders
WATCH orders
FLUSHDB
FLUSHALL
CONFIG GET databases
CONFIG SET stream-node-max-entries 1
CONFIG RESETSTAT
CLIENT LIST
CLIENT UNBLOCK 1
XDEL free-a 1-1
XTRIM free-a MAXLEN 0
XADD free-a MAXLEN 1 * n 2
XREADGROUP GROUP billing me STREAMS free-a >
XGROUP CREATE free-a billing 0
XGROUP DESTROY free-a free-g
"""


def test_redis_commands_are_refused_without_rights(secured: BrokerProcess) -> None:
    with RawRedis(address(secured, "redis")) as redis:
        redis.call("XADD", "free-a", "1-1", "n", "1")
        for line in REFUSED.strip().splitlines():
            reply = redis.call(*line.split())
            assert isinstance(reply, ReplyError), (line, reply)
            assert reply.startswith("NOPERM User:ANONYMOUS may not "), (line, reply)
        assert redis.call("MULTI") == "+OK"
        assert redis.call("XADD", "orders", "*", "n", "2").startswith("NOPERM")
        assert redis.call("EXEC").startswith("EXECABORT")
        assert redis.call("KEYS", "*") == [b"free-a"]
        assert redis.call("SCAN", "0")[1] == [b"free-a"]
        assert (redis.call("DBSIZE"), redis.call("RANDOMKEY")) == (1, b"free-a")
        assert b"keys=1," in redis.call("INFO", "keyspace")


def test_redis_clients_may_do_what_acls_allow(secured: BrokerProcess) -> None:
    with RawRedis(address(secured, "redis")) as redis:
        assert redis.call("XGROUP", "CREATE", "free-jobs", "free-g", "0", "MKSTREAM") == "+OK"
        assert redis.call("XADD", "free-jobs", "5-1", "n", "1") == b"5-1"
        taken = redis.call("XREADGROUP", "GROUP", "free-g", "me", "STREAMS", "free-jobs", ">")
        assert taken == [[b"free-jobs", [[b"5-1", [b"n", b"1"]]]]]
        assert redis.call("XACK", "free-jobs", "free-g", "5-1") == 1
        assert redis.call("XRANGE", "free-jobs", "-", "+") == [[b"5-1", [b"n", b"1"]]]
        assert redis.call("COPY", "free-jobs", "free-copy") == 1
        assert redis.call("XRANGE", "free-copy", "-", "+") == [[b"5-1", [b"n", b"1"]]]


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (b"PUB clicks", b"x"),
        (b"PUB new", b"x"),
        (b"MPUB clicks", struct.pack(">i", 1) + sized(b"x")),
        (b"DPUB clicks 1000", b"x"),
        (b"SUB clicks archive", None),
        (b"SUB clicks free-c", None),
        (b"SUB new free-c", None),
        (b"SUB free-t archive", None),
    ],
)
def test_nsq_commands_are_refused_without_rights(secured: BrokerProcess, line: bytes, body: bytes | None) -> None:
    client = NsqClient(address(secured, "nsq"))
    client.send(line, body)
    assert client.error().startswith(b"E_UNAUTHORIZED "), line


def test_nsq_clients_may_do_what_acls_allow(secured: BrokerProcess) -> None:
    client = NsqClient(address(secured, "nsq"))
    client.publish("free-clicks", b"one")
    client.subscribe("free-clicks", "free-c", 1)
    assert client.message().body == b"one"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/pub?topic=clicks", 403),
        ("POST", "/pub?topic=new", 403),
        ("POST", "/pub?topic=clicks&defer=1000", 403),
        ("POST", "/mpub?topic=clicks", 403),
        ("POST", "/topic/create?topic=new", 403),
        *[("POST", f"/topic/{what}?topic=clicks", 404) for what in ("delete", "empty", "pause", "unpause")],
        *[
            ("POST", f"/channel/{what}?topic=clicks&channel=archive", 404)
            for what in ("create", "delete", "empty", "pause", "unpause")
        ],
        *[("POST", f"/topic/{what}?topic=free-http", 403) for what in ("delete", "empty", "pause", "unpause")],
        ("POST", "/channel/create?topic=free-http&channel=archive", 403),
        ("POST", "/channel/delete?topic=free-http&channel=free-http", 403),
        ("POST", "/channel/pause?topic=free-http&channel=free-http", 403),
        ("POST", "/channel/empty?topic=free-http&channel=free-http", 200),
        ("GET", "/config/nsqlookupd_tcp_addresses", 403),
        ("PUT", "/config/nsqlookupd_tcp_addresses", 403),
    ],
)
def test_the_http_api_refuses_without_rights(secured: BrokerProcess, method: str, path: str, status: int) -> None:
    if "free-http" in path:
        assert asked(secured, "POST", "/topic/create?topic=free-http")[0] == 200
        assert asked(secured, "POST", "/channel/create?topic=free-http&channel=free-http")[0] == 200
    assert asked(secured, method, path)[0] == status


def test_statistics_name_only_what_the_client_may_describe(secured: BrokerProcess) -> None:
    assert asked(secured, "POST", "/topic/create?topic=free-stats")[0] == 200
    status, text = asked(secured, "GET", "/stats")
    assert status == 200
    assert "free-stats" in text
    for name in ("[clicks", "archive", "orders", "billing"):
        assert name not in text


def asked(broker: BrokerProcess, method: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*address(broker, "nsq-http"), timeout=60)
    connection.request(method, path, b'["127.0.0.1:1"]' if method != "GET" else None)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_a_channel_of_a_stream_gets_its_entries_and_not_what_became_of_its_groups(secured: BrokerProcess) -> None:
    with RawRedis(address(secured, "redis")) as redis:
        redis.call("XADD", "free-s", "1-1", "n", "1")
        redis.call("XGROUP", "CREATE", "free-s", "free-g", "0")
        redis.call("XREADGROUP", "GROUP", "free-g", "me", "STREAMS", "free-s", ">")
        redis.call("XADD", "free-s", "1-2", "n", "2")
        redis.call("XACK", "free-s", "free-g", "1-1")
    NsqClient(address(secured, "nsq")).publish("free-s", b"the last one")
    client = NsqClient(address(secured, "nsq")).subscribe("free-s", "free-channel", 10)
    bodies = [client.message().body for _ in range(3)]
    assert [msgspec.msgpack.decode(each) for each in bodies[:2]] == [[b"n", b"1"], [b"n", b"2"]]
    assert bodies[2] == b"the last one"
