"""A broker that is reached over TLS alone: at one listener by clients with a certificate, at the other by SCRAM.

Everybody who comes is known, and may do what ACLs say: `alice` all, with topics and groups that begin with `allowed-`.
"""

from __future__ import annotations

import json
from pathlib import Path

from ottla.cli.main import run
from tests.broker_process import BrokerProcess
from tests.certificates import Authority
from tools.ports import free_ports

PASSWORD = "pencil"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
MUTUAL, SASL = "mutual TLS", "SASL_SSL"
WAYS = (MUTUAL, SASL)
USERS = f"SCRAM-SHA-512=[name=alice,password={PASSWORD}]\nSCRAM-SHA-512=[name=admin,password={PASSWORD}]"


class TlsListeners:
    """The broker, and the files by which `alice` and `admin` come to it."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        authority = Authority()
        self.directory = directory
        self.authority = authority.write(directory / "ca.pem")
        self.keys = {name: authority.identity(name).write_pem(directory / f"{name}.pem") for name in ("alice", "admin")}
        mutual, sasl = free_ports(2)
        self.bootstraps = {MUTUAL: f"localhost:{mutual}", SASL: f"localhost:{sasl}"}
        self.process = BrokerProcess(
            directory / "data",
            {
                "listeners": f"SASL_SSL://localhost:{sasl},MUTUAL://localhost:{mutual}",
                "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MUTUAL:SSL",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.identity("broker").write_pem(directory / "broker.pem")),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.truststore.type": "PEM",
                "listener.name.mutual.ssl.truststore.location": str(self.authority),
                "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/L,DEFAULT",
                "group.initial.rebalance.delay.ms": "0",
                **(settings or {}),
            },
            protocol="SASL_SSL",
            environment={"OTTLA_SCRAM_USERS": USERS},
        )

    def __enter__(self) -> TlsListeners:
        self.process.start()
        for kind in ("topic", "group"):
            self.allow("alice", f"--{kind}", "allowed-", "--prefixed", "--operation", "all")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def allow(self, user: str, *what: str) -> None:
        """Let a user do something, as `ottla acl add` says it."""
        config = str(self.properties(SASL, "admin"))
        assert run(["acl", "add", "--principal", f"User:{user}", *what, "--config", config]) == 0

    def settings(self, way: str, user: str = "alice") -> dict[str, str]:
        """Those of Kafka's Java clients, for `user`, and without the address."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if way == MUTUAL:
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keys[user])}
            return {"security.protocol": "SSL", **trust, **own}
        login = {"sasl.jaas.config": f'{SCRAM} username="{user}" password="{PASSWORD}";'}
        return {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **trust, **login}

    def properties(self, way: str, user: str = "alice") -> Path:
        """A file that has them and the address: what commands take, Kafka's and Ottla's."""
        path = self.directory / f"{user}-{way.replace(' ', '-')}.properties"
        all_of_it = {"bootstrap.servers": self.bootstraps[way], **self.settings(way, user)}
        path.write_text("".join(f"{name}={value}\n" for name, value in all_of_it.items()))
        return path

    def librdkafka(self, way: str) -> dict[str, str]:
        """The settings of librdkafka."""
        common = {"bootstrap.servers": self.bootstraps[way], "ssl.ca.location": str(self.authority)}
        if way == MUTUAL:
            key = str(self.keys["alice"])
            return {**common, "security.protocol": "SSL", "ssl.certificate.location": key, "ssl.key.location": key}
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}
        return {**common, "security.protocol": "SASL_SSL", **login}

    def of_program(self, way: str) -> Path:
        """The file that the programs of other languages take."""
        path = self.directory / f"{way.replace(' ', '-')}.json"
        key = str(self.keys["alice"]) if way == MUTUAL else ""
        user, password = ("", "") if way == MUTUAL else ("alice", PASSWORD)
        path.write_text(json.dumps({"authority": str(self.authority), "key": key, "user": user, "password": password}))
        return path
