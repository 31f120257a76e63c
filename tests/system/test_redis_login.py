"""Redis clients log in as the users of the cluster, over TLS where the listener speaks it."""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.exceptions
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import AdminClient as Admin
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.broker_process import BrokerProcess
from tests.certificates import Authority
from tests.cluster import wait_until
from tests.redis_client import RawRedis, ReplyError, encoded

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "redis.listener": "127.0.0.1:0",
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:root",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.redis.plain.sasl.jaas.config": f'{JAAS} user_root="toor";',
}
USERS = {
    "OTTLA_SCRAM_USERS": "SCRAM-SHA-512=[name=anna,password=pencil]\nSCRAM-SHA-256=[name=bert,password=paper]"
    "\nSCRAM-SHA-256=[name=both,password=old]\nSCRAM-SHA-512=[name=both,password=new]"
}
MAP = "PLAINTEXT:PLAINTEXT,REDIS:"
WRONG = "WRONGPASS invalid username-password pair or user is disabled."
NOT_YET = re.compile("Authentication required|already authenticated")


def address(broker: BrokerProcess) -> tuple[str, int]:
    match = re.search(r"redis (\S+?):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return match[1], int(match[2])


def allow(
    principal: str, kind: ResourceType, name: str, operation: AclOperation, pattern: str = "PREFIXED"
) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType[pattern], principal, "*", operation, AclPermissionType.ALLOW)


@pytest.fixture(scope="module")
def optional(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Who does not log in is anonymous, and may read what begins with `open-`."""
    data = tmp_path_factory.mktemp("optional") / "data"
    settings = {**SETTINGS, "super.users": "User:root;User:ANONYMOUS"}
    with BrokerProcess(data, settings, environment=USERS) as process:
        topic = ResourceType.TOPIC
        rights = [
            allow("User:anna", topic, "a-", AclOperation.READ),
            allow("User:anna", topic, "a-", AclOperation.WRITE),
            allow("User:anna", topic, "a-", AclOperation.CREATE),
            allow("User:anna", topic, "a*[b]", AclOperation.READ, "LITERAL"),
            allow("User:*", topic, "open-", AclOperation.READ),
            allow("User:bert", topic, "*", AclOperation.ALL, "LITERAL"),
        ]
        admin = Admin({"bootstrap.servers": process.bootstrap})
        for future in admin.create_acls(rights).values():
            future.result(60)
        process.stop()
        process.settings = SETTINGS
        process.start()
        yield process


@pytest.fixture(scope="module")
def required(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Path]]:
    """Nobody may do anything before login, and it is TLS."""
    folder = tmp_path_factory.mktemp("required")
    authority = Authority()
    authority.write(folder / "ca.pem")
    authority.identity("broker").write_pem(folder / "broker.pem")
    settings = {
        **SETTINGS,
        "listener.security.protocol.map": f"{MAP}SASL_SSL",
        "listener.name.redis.ssl.keystore.type": "PEM",
        "listener.name.redis.ssl.keystore.location": str(folder / "broker.pem"),
    }
    with BrokerProcess(folder / "data", settings, environment=USERS) as process:
        yield process, folder / "ca.pem"


def client(broker: BrokerProcess, ca: Path | None = None, **options: Any) -> redis.Redis:
    host, port = address(broker)
    if ca is not None:
        options = {"ssl": True, "ssl_ca_certs": str(ca), **options}
    return redis.Redis(host, port, socket_timeout=60, retry=Retry(NoBackoff(), 0), **options)


@pytest.mark.parametrize(
    ("user", "password"), [("anna", "pencil"), ("bert", "paper"), ("both", "new"), ("root", "toor")]
)
@pytest.mark.parametrize("protocol", [2, 3])
def test_users_of_scram_and_plain_log_in(optional: BrokerProcess, user: str, password: str, protocol: int) -> None:
    with client(optional, username=user, password=password, protocol=protocol) as anna:
        assert anna.acl_whoami() in (user, user.encode())


@pytest.mark.parametrize(
    ("user", "password"),
    [("anna", "wrong"), ("anna", ""), ("both", "old"), ("nobody", "pencil"), ("", ""), ("anna\0", "pencil")],
)
def test_a_wrong_password_is_refused_and_the_client_stays_who_it_was(
    optional: BrokerProcess, user: str, password: str
) -> None:
    with RawRedis(address(optional)) as raw:
        assert raw.call("AUTH", user, password) == ReplyError(WRONG)
        assert raw.call("ACL", "WHOAMI") == b"default"
        assert raw.call("AUTH", "anna", "pencil") == "+OK"
        assert raw.call("AUTH", user, password) == ReplyError(WRONG)
        assert raw.call("HELLO", "3", "AUTH", user, password) == ReplyError(WRONG)
        assert raw.call("ACL", "WHOAMI") == b"anna"


def test_who_has_logged_in_may_do_what_its_acls_allow(optional: BrokerProcess) -> None:
    with RawRedis(address(optional)) as raw:
        refused = raw.call("XADD", "a-1", "1-1", "n", "1")
        assert refused == ReplyError("NOPERM User:ANONYMOUS may not WRITE topic a-1")
        assert raw.call("AUTH", "anna", "pencil") == "+OK"
        assert raw.call("XADD", "a-1", "1-1", "n", "1") == b"1-1"
        assert raw.call("XADD", "b-1", "1-1", "n", "1") == ReplyError("NOPERM User:anna may not WRITE topic b-1")
        assert raw.call("RESET") == "+RESET"
        assert raw.call("XLEN", "a-1") == ReplyError("NOPERM User:ANONYMOUS may not READ topic a-1")
        assert raw.call("XLEN", "open-1") == 0
        assert raw.call("AUTH", "anna", "pencil") == "+OK"
        assert raw.call("AUTH", "default", "whatever") == "+OK"
        assert raw.call("ACL", "WHOAMI") == b"default"


def test_commands_behind_it_wait_for_it(optional: BrokerProcess) -> None:
    with RawRedis(address(optional)) as raw:
        answers = raw.pipeline([("AUTH", "anna", "pencil"), ("ACL", "WHOAMI"), ("XADD", "a-2", "1-1", "n", "1")])
        assert answers == ["+OK", b"anna", b"1-1"]
        answers = raw.pipeline(
            [("AUTH", "anna", "no"), ("ACL", "WHOAMI"), ("MULTI",), ("AUTH", "bert", "paper"), ("EXEC",)]
        )
        assert answers[:2] == [ReplyError(WRONG), b"anna"]
        assert answers[4] == [ReplyError("ERR AUTH is not served inside a transaction")]


def test_rights_are_shown_as_redis_says_them(optional: BrokerProcess) -> None:
    with RawRedis(address(optional)) as raw:
        assert raw.call("ACL", "LIST") == ReplyError("NOPERM User:ANONYMOUS may not DESCRIBE the cluster")
        assert raw.call("AUTH", "root", "toor") == "+OK"
        assert raw.call("ACL", "USERS") == [b"default", b"anna", b"bert", b"both", b"root"]
        assert raw.call("ACL", "LIST") == [
            b"user default on nopass sanitize-payload %R~open-* &* +@all",
            rb"user anna on sanitize-payload ~a-* %R~a\*\[b\] %R~open-* &* +@all",
            b"user bert on sanitize-payload ~* %R~open-* &* +@all",
            b"user both on sanitize-payload %R~open-* &* +@all",
            b"user root on sanitize-payload ~* &* +@all",
        ]
        assert raw.call("ACL", "GETUSER", "nobody") is None
        assert "not served" in raw.call("ACL", "SETUSER", "anna", "on")
    with client(optional, username="root", password="toor", decode_responses=True) as root:
        found: Any = root.acl_getuser("anna")
        assert (found["enabled"], found["passwords"], found["flags"]) == (True, [], ["on", "sanitize-payload"])


def test_where_login_is_required_nothing_is_served_before_it(required: tuple[BrokerProcess, Path]) -> None:
    broker, ca = required
    with client(broker, ca) as nobody:
        for command in (
            "PING",
            "XLEN s",
            "MULTI",
            "INFO",
            "ACL WHOAMI",
            "COMMAND",
            "CLIENT LIST",
            "nonsense",
            "HELLO 3",
        ):
            with pytest.raises(redis.exceptions.AuthenticationError, match=NOT_YET):
                nobody.execute_command(*command.split())
    for options in (
        {"password": "pencil"},
        {"username": "default", "password": ""},
        {"username": "anna", "password": "x"},
    ):
        with client(broker, ca, **options) as wrong, pytest.raises(redis.exceptions.AuthenticationError):
            wrong.ping()
    with client(broker, ca, username="root", password="toor", protocol=3) as root:
        assert root.ping()
        root.xadd("orders", {"n": "1"})
        assert root.xlen("orders") == 1


def test_and_no_more_is_read_than_it_takes_to_log_in(required: tuple[BrokerProcess, Path]) -> None:
    broker, ca = required

    context = ssl.create_default_context(cafile=ca)

    def said(data: bytes, answers: int = 1) -> list[Any]:
        with RawRedis(address(broker)) as raw:
            raw.socket = context.wrap_socket(raw.socket, server_hostname="localhost")
            with contextlib.suppress(OSError):  # it may be hung up on before all is sent
                raw.socket.sendall(data)
            return [raw.reply() for _ in range(answers)]

    assert said(b"*11\r\n") == [ReplyError("ERR Protocol error: unauthenticated multibulk length")]
    assert said(b"*2\r\n$4\r\nPING\r\n$16385\r\n") == [ReplyError("ERR Protocol error: unauthenticated bulk length")]
    large = encoded(("XADD", "large", "1-1", "n", "x" * 20_000))
    refused = said(encoded(("AUTH", "root", "no")) + large, 2)
    assert refused == [ReplyError(WRONG), ReplyError("ERR Protocol error: unauthenticated bulk length")]
    assert said(encoded(("AUTH", "root", "toor")) + large * 2 + encoded(("PING",)), 4)[1::2] == [b"1-1", "+PONG"]
    many = encoded(("DEL", *("k" for _ in range(1_000))))
    assert said(encoded(("HELLO", "2", "AUTH", "anna", "pencil")) + many, 2)[1].startswith("NOPERM")


def test_a_client_of_plaintext_is_told_nothing(required: tuple[BrokerProcess, Path]) -> None:
    with RawRedis(address(required[0])) as raw, pytest.raises((ConnectionError, IndexError, AssertionError, EOFError)):
        raw.call("PING")
    with pytest.raises(redis.exceptions.ConnectionError):
        client(required[0], ssl=True).ping()  # of an authority that it does not trust


def test_no_password_is_in_the_log(optional: BrokerProcess) -> None:
    log = optional.log_path.read_text()
    assert "a Redis client could not log in as 'anna'" in log
    assert "pencil" not in log


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_who_is_no_user_any_more_has_to_log_in_again(tmp_path: Path, protocol: str) -> None:
    settings = {
        "redis.listener": "127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.security.protocol.map": f"{MAP}{protocol}",
    }
    refused = ReplyError("NOAUTH Authentication required.")
    with BrokerProcess(tmp_path / "data", settings, environment=USERS) as broker, contextlib.ExitStack() as stack:
        anna, waits, queues, bert = (stack.enter_context(RawRedis(address(broker))) for _ in range(4))
        for each in (anna, waits, queues):
            assert each.call("AUTH", "anna", "pencil") == "+OK"
        assert bert.call("AUTH", "bert", "paper") == "+OK"
        assert bert.call("XADD", "k", "1-1", "n", "1") == b"1-1"
        assert queues.pipeline([("MULTI",), ("XLEN", "k")]) == ["+OK", "+QUEUED"]
        waits.send("XREAD", "BLOCK", "0", "STREAMS", "k", "$")
        wait_until(lambda: "blocked_clients:1" in str(bert.call("INFO", "clients")), "the client waits")
        admin = Admin({"bootstrap.servers": broker.bootstrap})
        gone = UserScramCredentialDeletion("anna", ScramMechanism.SCRAM_SHA_512)
        admin.alter_user_scram_credentials([gone])["anna"].result(60)
        assert anna.call("XLEN", "k") == refused
        assert queues.call("EXEC") == refused
        assert bert.call("XADD", "k", "2-1", "n", "1") == b"2-1"
        assert waits.reply() == refused
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion("anna", info, b"another")
        admin.alter_user_scram_credentials([made])["anna"].result(60)
        assert anna.call("XLEN", "k") == refused
        assert anna.call("AUTH", "anna", "another") == "+OK"
        assert anna.call("XLEN", "k") == 2
