"""Kafka's own client logs in by OAUTHBEARER: with a signed token of a file, and with one that it makes itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.cli.main import run
from ottla.settings.broker_oauth_table import SIGNED_CLASSES, UNSIGNED_CLASS
from tests.broker_process import BrokerProcess
from tests.conformance.java.jvm import Ended, Jvm
from tests.conformance.java.kafka_tools import KafkaTools
from tests.tokens import TokenIssuer, write_jwks

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="security")]

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OWN = "listener.name.sasl_plaintext.oauthbearer."


def properties(path: Path, line: str, *others: str) -> str:
    lines = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", f"sasl.jaas.config={line}", *others)
    path.write_text("\n".join(lines))
    return str(path)


def test_with_a_token_that_an_issuer_signed(jvm: Jvm, tmp_path: Path) -> None:
    issuer = TokenIssuer.rsa()
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OWN}sasl.server.callback.handler.class": SIGNED_CLASSES[0],
        f"{OWN}sasl.jaas.config": f"{MODULE};",
        "sasl.oauthbearer.jwks.endpoint.url": write_jwks(tmp_path / "keys.json", issuer),
        "sasl.oauthbearer.expected.audience": "ottla",
    }
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    config, other = (
        properties(
            tmp_path / f"{number}.properties",
            f'{MODULE} extension_number="{number}";',  # the JVM shares what clients of one line have
            f"sasl.login.callback.handler.class={handler}",
            f"sasl.oauthbearer.token.endpoint.url=file://{jvm.token}",
        )
        for number in (1, 2)
    )
    with BrokerProcess(tmp_path / "data", settings, protocol="SASL_PLAINTEXT") as broker:
        tools = KafkaTools(jvm, broker.bootstrap)
        jvm.token.write_text(issuer.token("anna"))
        tools.produce("signed", ["one", "two"], "--command-config", config)
        assert tools.consume("signed", 2, "--from-beginning", "--command-config", config) == ["one", "two"]
        jvm.token.write_text(issuer.token("anna", aud="another"))
        refused = tools.topics("--list", "--command-config", other)
        assert '{"status":"invalid_token"}' in refused.out + refused.err


def test_with_a_token_that_nobody_signed_where_that_is_set(jvm: Jvm, tmp_path: Path) -> None:
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OWN}sasl.server.callback.handler.class": UNSIGNED_CLASS,
        f"{OWN}sasl.jaas.config": f"{MODULE};",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:anna",
    }
    config = properties(tmp_path / "client.properties", f'{MODULE} unsecuredLoginStringClaim_sub="anna";')
    with BrokerProcess(tmp_path / "data", settings, protocol="SASL_PLAINTEXT") as broker:
        tools = KafkaTools(jvm, broker.bootstrap)
        tools.topics("--create", "--topic", "unsigned", "--command-config", config).ok()
        assert "unsigned" in tools.topics("--list", "--command-config", config).ok().out


def test_delegation_tokens_are_made_used_renewed_and_ended(jvm: Jvm, tmp_path: Path) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{plain} user_anna="pencil" user_bert="paper";',
        "delegation.token.secret.key": "the key of the test",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:anna",
    }

    def user(name: str, password: str) -> str:
        path = tmp_path / f"{name}.properties"
        line = f'{plain} username="{name}" password="{password}";'
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}\n")
        return str(path)

    with BrokerProcess(tmp_path / "data", settings, protocol="SASL_PLAINTEXT") as broker:
        tools = KafkaTools(jvm, broker.bootstrap)
        anna, bert = user("anna", "pencil"), user("bert", "paper")

        def tokens(config: str, *args: str) -> Ended:
            return tools.tool("DelegationTokenCommand", "--command-config", config, *args)

        made = tokens(anna, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bert").ok().out
        token_id, secret = re.search(r"^(\S+)\s+(\S+)\s+User:anna\s+User:anna\s", made, re.MULTILINE).groups()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            line = f'{scram} username="{token_id}" password="{secret}" tokenauth="true";'
            path = tmp_path / f"{mechanism}.properties"
            path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={line}\n")
            tools.topics("--create", "--topic", mechanism, "--command-config", str(path)).ok()
            refused = tokens(str(path), "--create", "--max-life-time-period", "-1")
            assert "Delegation Token requests are not allowed" in refused.out + refused.err
            assert run(["topic", "list", "-b", broker.bootstrap, "--command-config", str(path)]) == 0
        of_anna = ("--describe", "--owner-principal", "User:anna")
        assert token_id in tokens(bert, *of_anna).ok().out  # a renewer
        renewed = tokens(bert, "--renew", "--renew-time-period", "-1", "--hmac", secret).ok().out
        assert "Completed renew operation" in renewed
        ended = tokens(anna, "--expire", "--expiry-time-period", "-1", "--hmac", secret).ok().out
        assert "Completed expire operation" in ended
        assert token_id not in tokens(anna, *of_anna).ok().out
        gone = tools.topics("--list", "--command-config", str(path))
        assert "invalid credentials" in gone.out + gone.err
