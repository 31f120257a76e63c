"""Settings that cannot be meant: at the start, and by clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.hostile.raw_peer import RawPeer

TOPIC_RESOURCE, SET = 2, 0

BAD_BROKER_SETTINGS = [
    ("max.connections", "0"),
    ("max.connections", "many"),
    ("max.connections", "99999999999999999999"),
    ("queued.max.request.bytes", "1"),
    ("queued.max.request.bytes", "-1"),
    ("socket.request.max.bytes", "0"),
    ("connections.max.idle.ms", "-7"),
    ("log.segment.bytes", "13"),
    ("log.cleanup.policy", "burn"),
    ("listeners", "PLAINTEXT://:99999"),
    ("listeners", "KERBEROS://:9092"),
    ("no.such.setting", "1"),
    ("message.max.bytes", "1e6"),
    ("log.flush.before.ack", "perhaps"),
    ("node.id", "-1"),
    ("max.connections", "1\nottla: forged"),
]


@pytest.mark.parametrize(("name", "value"), BAD_BROKER_SETTINGS, ids=lambda text: ascii(text)[:30])
def test_a_broker_does_not_start_with_it_and_says_why_in_one_line(tmp_path: Path, name: str, value: str):
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(tmp_path / "data"), "--set", f"{name}={value}"]
    if name != "listeners":
        command += ["--kafka", "127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in (1, 2)
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()[-1:]
    assert name in ended.stderr or name.replace(".", "_") in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not line.startswith("ottla: forged")


BAD_TOPIC_SETTINGS = [
    ("no.such.setting", "1"),
    ("retention.ms", "-2"),
    ("retention.ms", "x" * 30_000),
    ("segment.bytes", "13"),
    ("segment.bytes", None),
    ("cleanup.policy", "burn"),
    ("max.message.bytes", "-1"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "Yesterday"),
    ("", ""),
    ("a\nb\x1b[2J", "c\0d"),
]


@pytest.mark.parametrize(("name", "value"), BAD_TOPIC_SETTINGS, ids=lambda text: ascii(text)[:30])
def test_a_client_cannot_set_it(peer: RawPeer, topic: str, name: str, value: str | None):
    config = AlterableConfig(name=name, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=(config,))
    (changed,) = peer.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses
    assert changed.error_code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
    wanted = CreatableTopic(
        name=f"{topic}-not",
        num_partitions=1,
        replication_factor=1,
        configs=(CreatableTopicConfig(name=name, value=value),),
    )
    (created,) = peer.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=60_000), 7).topics
    assert created.error_code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("partitions", "replicas", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, 1, ErrorCode.POLICY_VIOLATION),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2**15 - 1, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_client_cannot_ask_for_impossible_partitions(
    peer: RawPeer, topic: str, partitions: int, replicas: int, error: ErrorCode
):
    wanted = CreatableTopic(name=f"{topic}-not", num_partitions=partitions, replication_factor=replicas)
    (created,) = peer.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=60_000), 7).topics
    assert ErrorCode(created.error_code) is error, created.error_message
