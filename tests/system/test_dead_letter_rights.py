"""`ottla dlq redrive` as a user that has the rights it needs and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.main import run as run_command
from ottla.client import ClientOptions, SyncProducer
from ottla.pipelines.dead_letters.headers import Letter, headers_of
from tests.broker_process import BrokerProcess

SETTINGS = {
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:admin",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
}
PASSWORDS = {"admin": "root", "anna": "pencil"}
USERS = "\n".join(f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in PASSWORDS.items())
RIGHTS = (
    ("--topic", "dead", "read"),
    ("--topic", "__ottla-dlq-redriven", "read", "write"),
    ("--topic", "jobs", "write"),
    ("--group", "ottla-dlq-redrive.dead", "read"),
    ("--transactional-id", "ottla-dlq-redrive.dead", "write"),
)


def test_what_may_go_goes_and_letters_of_topics_that_may_not_be_seen_or_cannot_be_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"OTTLA_SCRAM_USERS": USERS}
    with BrokerProcess(tmp_path / "data", SETTINGS, environment=environment, protocol="SASL_PLAINTEXT") as broker:

        def command(user: str, *arguments: str) -> str:
            properties = tmp_path / user
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            properties.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
                f'sasl.jaas.config={module} required username="{user}" password="{PASSWORDS[user]}";\n'
            )
            capsys.readouterr()
            at = ["--bootstrap", broker.bootstrap, "--command-config", str(properties)]
            assert run_command([*arguments, *at]) == 0
            return capsys.readouterr().out

        for topic in ("jobs", "secret", "dead", "__ottla-dlq-redriven"):
            command("admin", "topic", "create", topic)
        options = ClientOptions.of(
            broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="admin",
            sasl_password=PASSWORDS["admin"],
        )
        with SyncProducer(options) as producer:
            for topic in ("secret", "../secret", "", "jobs"):
                producer.send("dead", b"work", headers=headers_of(Letter(topic, 0, 1, reason="no")))
        for kind, name, *operations in RIGHTS:
            words = [word for operation in operations for word in ("--operation", operation)]
            command("admin", "acl", "add", "--principal", "User:anna", kind, name, *words)
        done = json.loads(command("anna", "dlq", "redrive", "dead", "--execute", "--json"))
        assert done["sent"] == [{"topic": "jobs", "step": None, "letters": 1}]
        assert [(each["why"], each["letters"]) for each in done["refused"]] == [("no such topic", 3)]
