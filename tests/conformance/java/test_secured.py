"""Kafka's tools against a broker with SASL and ACLs: users, ACLs, and who may not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.java.jvm import Ended, Jvm
from tests.conformance.java.kafka_tools import KafkaTools
from tests.conformance.security_answers import JAAS, SETTINGS

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="security")]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**SETTINGS, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    settings["auto.create.topics.enable"] = "true"
    with BrokerProcess(tmp_path_factory.mktemp("secured") / "data", settings, protocol="SASL_PLAINTEXT") as broker:
        yield broker


@pytest.fixture
def tools(jvm: Jvm, secured: BrokerProcess) -> KafkaTools:
    return KafkaTools(jvm, secured.bootstrap)


def properties(folder: Path, mechanism: str, line: str) -> str:
    path = folder / f"{mechanism}.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={line}\n")
    return str(path)


def test_users_and_acls_are_made_and_hold(tools: KafkaTools, tmp_path: Path) -> None:
    admin = properties(tmp_path, "PLAIN", f'{JAAS} username="admin" password="root";')
    anna = properties(tmp_path, "SCRAM-SHA-256", f'{SCRAM} username="anna" password="pencil";')

    def acls(*args: str) -> Ended:
        return tools.tool("AclCommand", "--command-config", admin, *args).ok()

    of_user = ("--entity-type", "users", "--entity-name", "anna", "--command-config", admin)
    done = tools.configs("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=pencil]", *of_user).ok()
    assert "Completed updating" in done.out
    assert "SCRAM-SHA-256=iterations=8192" in tools.configs("--describe", *of_user).ok().out
    acls("--add", "--allow-principal", "User:anna", "--producer", "--topic", "java-")
    refused = tools.tool_with_input("ConsoleProducer", ["x"], "--topic", "java-1", "--command-config", anna)
    assert "not authorized" in (refused.out + refused.err).lower()
    added = acls(
        "--add",
        "--allow-principal",
        "User:anna",
        "--producer",
        "--topic",
        "java-",
        "--resource-pattern-type",
        "prefixed",
    )
    assert "ResourcePattern(resourceType=TOPIC, name=java-, patternType=PREFIXED)" in added.out
    acls("--add", "--allow-principal", "User:anna", "--consumer", "--topic", "java-1", "--group", "*")
    tools.produce("java-1", ["one", "two"], "--command-config", anna)
    assert tools.consume("java-1", 2, "--from-beginning", "--command-config", anna) == ["one", "two"]
    listed = acls("--list", "--topic", "java-1", "--resource-pattern-type", "match").out
    assert listed.count("ResourcePattern(") == 2
    assert "principal=User:anna, host=*, operation=WRITE, permissionType=ALLOW" in listed
    acls("--remove", "--force", "--allow-principal", "User:anna", "--consumer", "--topic", "java-1", "--group", "*")
    assert "LITERAL" not in acls("--list", "--topic", "java-1").out.replace("name=java-,", "")
    assert "java-1" in tools.topics("--list", "--command-config", anna).ok().out
    tools.configs("--alter", "--delete-config", "SCRAM-SHA-256", *of_user).ok()
    gone = tools.topics("--list", "--command-config", anna)
    assert "invalid credentials" in gone.out + gone.err
