"""Three brokers with a secret of every kind: nothing that they and the commands show has one, nor do open files."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from ottla.client.admin.delegation_tokens import create_token
from ottla.client.errors import ClientError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.settings.broker_table import BROKER_SETTINGS
from tests.certificates import Authority
from tests.identity_provider import IdentityProvider
from tests.redis_client import RawRedis, ReplyError
from tests.system.markers import Markers
from tests.system.nsq_auth_server import ANSWERS, auth_server
from tests.system.nsq_client import NsqClient

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOPIC, BROKER, GROUP = 2, 4, 32

COMMANDS = (
    "import json, sys\nfrom ottla.cli.main import run\nfor each in json.load(sys.stdin): print(each[:3], run(each))"
)


class Party:
    """The brokers, who may do everything at them, and all that was shown by now."""

    def __init__(self, directory: Path, provider: IdentityProvider, nsq_auth: str) -> None:
        self.directory = directory
        self.secrets = Markers()
        self.shown: dict[str, bytes] = {}
        self.nsq_auth = nsq_auth
        self.provider = provider
        self.authority = Authority()
        self.ca = str(self.authority.write(directory / "ca.pem"))
        self.ready: list[str] = []

    def settings(self) -> dict[str, str]:
        """Every setting of type password, and every file with secrets."""
        new, directory = self.secrets.new, self.directory
        key = self.authority.identity("broker")
        key_password = new("ssl.key.password")
        pem = key.key_pem(key_password)
        self.secrets.add("ssl.keystore.key", pem.splitlines()[2])
        store_password = new("ssl.keystore.password")
        store = self.authority.identity("other").write_pkcs12(directory / "other.p12", store_password)
        users = directory / "users"
        users.write_text(f"SCRAM-SHA-512=[name=admin,password={new('password of admin')}]\n")
        users.chmod(0o600)
        return {
            "listeners": "SASL_SSL://127.0.0.1:0,OTHER://127.0.0.1:0",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,OTHER:SSL,REDIS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"{self.provider.url}/keys",
            "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
            "listener.name.sasl_ssl.ssl.keystore.key": one_line(pem),
            "listener.name.sasl_ssl.ssl.keystore.certificate.chain": one_line(key.certificate_pem),
            "listener.name.sasl_ssl.ssl.key.password": key_password,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": one_line(self.authority.certificate_pem),
            "ssl.truststore.password": new("ssl.truststore.password"),
            "listener.name.other.ssl.keystore.type": "PKCS12",
            "listener.name.other.ssl.keystore.location": str(store),
            "listener.name.other.ssl.keystore.password": store_password,
            "sasl.jaas.config": f'{PLAIN} required user_plain="{new("sasl.jaas.config")}";',
            "sasl.scram.users.file": str(users),
            "delegation.token.secret.key": new("delegation.token.secret.key"),
            "cluster.secret": new("cluster.secret"),
            "cluster.secret.accepted": new("cluster.secret.accepted"),
            "metadata.zookeeper.credentials": f"broker:{new('metadata.zookeeper.credentials')}",
            "zookeeper.ssl.keystore.password": new("zookeeper.ssl.keystore.password"),
            "zookeeper.ssl.truststore.password": new("zookeeper.ssl.truststore.password"),
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": "User:admin;User:plain;User:worker;User:ANONYMOUS",
            "redis.listener": "127.0.0.1:0",
            "nsq.listener": "127.0.0.1:0",
            "nsq.http.listener": "127.0.0.1:0",
            "nsq.auth.http.addresses": self.nsq_auth,
            "connection.failed.authentication.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
        }

    def where(self, face: str) -> tuple[str, int]:
        """Where one of the brokers serves."""
        match = re.search(rf"{face} (\S+?):(\d+)", self.ready[0])
        assert match is not None, self.ready
        return match[1], int(match[2])

    @property
    def bootstrap(self) -> str:
        return ",".join(":".join(re.findall(r"kafka (\S+?):(\d+)", line)[0]) for line in self.ready)

    def options(self, **sasl: str) -> ClientOptions:
        return ClientOptions.of(
            self.bootstrap,
            security_protocol="SASL_SSL",
            ssl_truststore_location=self.ca,
            api_timeout_ms=30_000,
            **sasl,
        )

    def client_file(self, name: str, *lines: str) -> str:
        """A file of client properties; the path."""
        path = self.directory / name
        common = (f"bootstrap.servers={self.bootstrap}", "security.protocol=SASL_SSL")
        path.write_text("\n".join((*common, f"ssl.truststore.location={self.ca}", *lines)) + "\n")
        path.chmod(0o600)
        return str(path)


def one_line(pem: str) -> str:
    """PEM as a value in a file of properties."""
    return pem.replace("\n", "\\n")


def write_properties(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    path.chmod(0o600)
    return path


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    """Brokers that run, log everything, and whose clients have done what clients do."""
    directory = tmp_path_factory.mktemp("secrets")
    with IdentityProvider() as provider, auth_server() as nsq_auth:
        made = Party(directory, provider, nsq_auth.address)
        made.secrets.add("AUTH of NSQ", nsq_secret := made.secrets.new("AUTH of NSQ"))
        ANSWERS[nsq_secret] = ANSWERS["all"]
        provider.secrets["app"] = made.secrets.new("client secret")
        provider.claims = {"sub": "app"}
        config = write_properties(directory / "server.properties", made.settings())
        command = [sys.executable, "-m", "ottla.cli", "serve", "--processes", "3", "--data", str(directory / "data")]
        command += ["--config", str(config), "--log-level", "debug", "--log-format", "json"]
        log = directory / "log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, umask=0)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "a cluster of 3" in line:
                    break
                made.ready.append(line)
            assert len(made.ready) == 3, log.read_text()
            use(made)
            for pid in (process.pid, *children(process.pid)):
                made.shown[f"command line of {pid}"] = Path(f"/proc/{pid}/cmdline").read_bytes()
        finally:
            process.terminate()
            made.shown["standard output"] = process.communicate(timeout=300)[0].encode()
            ANSWERS.pop(nsq_secret)
        made.shown["log"] = log.read_bytes()
        yield made


def use(party: Party) -> None:
    """Log in by each way, well and badly, and have shown what can be shown."""
    party.secrets.add("secret of the cluster", cluster_secret(party.directory / "data").hex())
    asyncio.run(use_kafka(party))
    side = Thread(target=use_commands, args=(party,))
    side.start()
    use_redis(party)
    use_nsq(party)
    side.join()


def cluster_secret(data: Path) -> bytes:
    with closing(sqlite3.connect(f"file:{data / 'metadata.db'}?mode=ro", uri=True)) as database:
        (secret,) = database.execute("SELECT secret FROM cluster").fetchone()
    assert isinstance(secret, bytes)
    return secret


async def use_kafka(party: Party) -> None:
    secrets = party.secrets
    admin = party.options(sasl_username="admin", sasl_password=secrets.values["password of admin"].decode())
    cluster = Cluster(admin, AsyncioIo())
    await cluster.connect()
    token = await create_token(cluster)
    secrets.add("token's secret", token.secret)
    resources = [(BROKER, str(number)) for number in (1, 2, 3)] + [(BROKER, ""), (TOPIC, "t"), (GROUP, "g")]
    for synonyms in (True, False):
        for kind, name in resources:
            request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, None),), synonyms, True)
            if kind == BROKER and name:
                answer = await cluster.ask_node(int(name), request, DescribeConfigsResponse)
            else:
                answer = await cluster.ask_any(request, DescribeConfigsResponse)
            party.shown[f"DescribeConfigs {kind} {name} {synonyms}"] = repr(answer).encode()
    cluster.close()
    told = [repr(admin)]
    for sasl in (
        {"sasl_username": "admin", "sasl_password": secrets.new("wrong password of SCRAM")},
        {"sasl_username": "plain", "sasl_mechanism": "PLAIN", "sasl_password": secrets.new("wrong password of PLAIN")},
        {"sasl_username": "new", "sasl_mechanism": "PLAIN", "sasl_password": secrets.new("password of nobody")},
        {
            "sasl_jaas_config": f'{SCRAM} required username="{token.token_id}" password="{secrets.new("wrong token")}"'
            ' tokenauth="true";'
        },
        {"sasl_jaas_config": f'{SCRAM} required username="a" pasword="{secrets.new("password misspelt")}";'},
        {"sasl_jaas_config": f'{SCRAM} required username=a password="{secrets.new("quote left open")};'},
    ):
        try:
            options = party.options(**sasl)
            told.append(repr(options))
            failing = Cluster(options, AsyncioIo())
            try:
                await failing.connect()
            finally:
                failing.close()
        except ClientError as error:
            told.append(repr(error))
        else:
            raise AssertionError(sasl)
    party.shown["errors of clients"] = "\n".join(told).encode()


def use_commands(party: Party) -> None:
    """Commands with --debug, one after the other in a process."""
    secrets, directory = party.secrets, party.directory
    values = {what: value.decode() for what, value in secrets.values.items()}
    admin = party.client_file("admin.properties", "sasl.username=admin", f"sasl.password={values['password of admin']}")
    oauth = party.client_file(
        "oauth.properties",
        "sasl.mechanism=OAUTHBEARER",
        f"sasl.oauthbearer.token.endpoint.url={party.provider.url}/token",
        "sasl.oauthbearer.client.credentials.client.id=app",
        f"sasl.oauthbearer.client.credentials.client.secret={values['client secret']}",
    )
    bad_oauth = party.client_file(
        "bad-oauth.properties",
        f'sasl.jaas.config={OAUTH} required clientId="app" clientSecret="{secrets.new("wrong client secret")}";',
        f"sasl.oauthbearer.token.endpoint.url={party.provider.url}/token",
    )
    bad_key = party.client_file(
        "bad-key.properties",
        "sasl.username=admin",
        f"sasl.password={values['password of admin']}",
        f"ssl.keystore.location={directory / 'other.p12'}",
        "ssl.keystore.type=PKCS12",
        f"ssl.keystore.password={secrets.new('wrong password of a key store')}",
    )
    unread = party.client_file(
        "unread.properties",
        f"sasl.pasword={secrets.new('value of an unknown property')}",
        "sasl.username=admin",
        f"sasl.password={values['password of admin']}",
        "request.timeout.ms=soon",
    )
    password = directory / "password"
    password.write_text(secrets.new("password of a new user"))
    jaas = f'{PLAIN} required user_x="{secrets.new("JAAS line set by a client")}";'
    bad_jaas = f'{PLAIN} required user_x="{secrets.new("JAAS line that is refused")};'
    as_admin = ["--config", admin]
    commands = [
        ["topic", "create", "t", *as_admin],
        ["topic", "list", "--json", "--config", oauth],
        ["topic", "list", "--config", bad_oauth],
        ["topic", "list", "--config", bad_key],
        ["topic", "list", "--config", unread],
        ["user", "add", "anna", "--password-file", str(password), *as_admin],
        ["user", "set", "anna", "--password-file", str(password), "--json", *as_admin],
        ["user", "list", "--json", *as_admin],
        ["config", "set", f"listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}", "--broker", "1", *as_admin],
        ["config", "set", f"listener.name.sasl_ssl.plain.sasl.jaas.config={bad_jaas}", "--broker", "1", *as_admin],
        ["config", "set", f"ssl.key.password={secrets.new('refused ssl.key.password')}", "--broker", "1", *as_admin],
        *(
            ["config", "set", f"{name}={secrets.new(f'{name} that is not to be set')}", "--broker", "1", *as_admin]
            for name in ("delegation.token.secret.key", "metadata.zookeeper.credentials")
        ),
        *(
            ["config", "list", "--broker", which, *how, *as_admin]
            for which in ("1", "2", "all")
            for how in ([], ["--json"])
        ),
        ["acl", "list", "--json", *as_admin],
        ["token", "list", "--json", *as_admin],
        ["cluster", "status", "--json", *as_admin],
        ["quota", "list", "--json", *as_admin],
        ["log", "dirs", "--json", *as_admin],
        ["serve", "--check", "--config", str(directory / "server.properties"), "--data", str(directory / "new")],
        *(["serve", "--check", "--config", each, "--data", str(directory / "new")] for each in bad_files(party)),
    ]
    shown = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps([["--debug", *each] for each in commands]),
        text=True,
        capture_output=True,
        check=True,
        umask=0,
        timeout=300,
    )
    party.shown["commands"] = (shown.stdout + shown.stderr).encode()


def bad_files(party: Party) -> list[str]:
    """Settings of brokers with a mistake in a secret, or beside it."""
    secrets, directory = party.secrets, party.directory
    good = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(party.authority.identity("broker").write_pem(directory / "good.pem", "secret")),
        "ssl.key.password": "secret",
    }
    mistakes = (
        {"ssl.key.password": secrets.new("wrong ssl.key.password")},
        {"ssl.key.pasword": secrets.new("a setting misspelt")},
        {"ssl.keystore.key": secrets.new("no PEM")},
        {"ssl.truststore.certificates": secrets.new("no PEM in a trust store")},
        {"sasl.jaas.config": f'{PLAIN} user_a="{secrets.new("a JAAS line without a flag")}";'},
        {"sasl.jaas.config": f'{PLAIN} required user_a="{secrets.new("an open quote")}'},
        {"listener.name.none.plain.sasl.jaas.config": f'{PLAIN} required user_a="{secrets.new("of no listener")}";'},
        {"metadata.zookeeper.credentials": secrets.new("credentials without a colon")},
        {"delegation.token.secret.key": secrets.new("too long a key") * 100_000},
        {"nsq.auth.http.addresses": f"http://user:{secrets.new('password in a URL')}@127.0.0.1:1/auth"},
        {"sasl.oauthbearer.jwks.endpoint.url": f"http://user:{secrets.new('password in a URL of keys')}@127.0.0.1:1/"},
        {"sasl.scram.users.file": str(bad_users(directory / "bad-users", secrets))},
    )
    return [
        str(write_properties(directory / f"bad-{number}.properties", {**good, **mistake}))
        for number, mistake in enumerate(mistakes)
    ]


def bad_users(path: Path, secrets: Markers) -> Path:
    path.write_text(f"SCRAM-SHA-512=[name=a,pasword={secrets.new('a line of users misspelt')}]\n")
    path.chmod(0o600)
    return path


def use_redis(party: Party) -> None:
    secrets = party.secrets
    password = secrets.values["password of admin"].decode()
    shown: list[object] = []
    with RawRedis(party.where("redis")) as redis:
        for words in (
            ("AUTH", "admin", secrets.new("wrong password of Redis")),
            ("AUTH", secrets.new("password without a name")),
            ("HELLO", "3", "AUTH", "admin", secrets.new("wrong password of HELLO")),
            ("HELLO", "9", "AUTH", "admin", password),
            ("AUTH", "admin", password, "more"),
        ):
            reply = redis.call(*words)
            assert isinstance(reply, ReplyError), reply
            shown.append(reply)
        assert redis.call("AUTH", "admin", password) == "+OK"
        lines = (
            "CONFIG GET *",
            "INFO everything",
            "CLIENT LIST",
            "CLIENT INFO",
            "ACL LIST",
            "ACL USERS",
            "ACL GETUSER admin",
            "ACL WHOAMI",
            "ACL LOG",
            "SLOWLOG GET",
            "COMMAND INFO auth",
        )
        shown += [redis.call(*line.split()) for line in lines]
    party.shown["Redis"] = repr(shown).encode()


def use_nsq(party: Party) -> None:
    secrets, shown = party.secrets, b""
    for secret in (secrets.values["AUTH of NSQ"].decode(), secrets.new("wrong AUTH of NSQ")):
        client = NsqClient(party.where("nsq"))
        client.identify(client_id="c")
        client.send(b"AUTH", secret.encode())
        shown += repr(client.frame()).encode()
        with suppress(EOFError):
            client.send(b"SUB topic channel")
            shown += repr(client.frame()).encode()
            for path in ("/stats", "/stats?format=json", "/info", "/config/nsqlookupd_tcp_addresses", "/config/x"):
                connection = http.client.HTTPConnection(*party.where("nsq-http"), timeout=60)
                connection.request("GET", path)
                shown += connection.getresponse().read()
                connection.close()
        client.close()
    party.shown["NSQ"] = shown


def test_every_secret_setting_has_a_value_here(party: Party) -> None:
    named = {each.name for each in BROKER_SETTINGS.values() if each.is_secret}
    given = party.settings()
    assert {name for name in named if not any(each.endswith(name) for each in given)} == set()


def test_nothing_that_is_shown_has_a_secret(party: Party) -> None:
    found = [line for where, data in party.shown.items() for line in party.secrets.found_in(where, data)]
    assert found == []


def test_files_with_secrets_are_of_their_owner_alone(party: Party) -> None:
    """Those that brokers and commands have written, under a umask that takes nothing."""
    open_files, held = [], 0
    for folder, _, names in os.walk(party.directory / "data"):
        for name in names:
            path = Path(folder) / name
            if stat.S_ISREG(path.stat().st_mode) and party.secrets.found_in(name, path.read_bytes()):
                open_files += [str(each) for each in (path, path.parent) if stat.S_IMODE(each.stat().st_mode) & 0o077]
                held += 1
    assert (open_files, held > 0) == ([], True)
