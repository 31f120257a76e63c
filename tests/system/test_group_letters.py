"""Retries and dead letters of share groups on a running broker (KIP-1191), and sending letters back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from ottla.cli.main import run as run_command
from ottla.client import AcknowledgementMode, AcknowledgeType, ShareConsumerOptions, SyncProducer, SyncShareConsumer
from ottla.client.consuming.share_record import ShareRecord
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until

Verdicts = dict[bytes, AcknowledgeType]


@pytest.fixture
def name() -> str:
    return f"jobs-{uuid4().hex[:8]}"


def command(*arguments: str) -> None:
    assert run_command(list(arguments)) == 0


def prepare(broker: BrokerProcess, name: str, **settings: str) -> None:
    """A topic of jobs, one of letters, and a group of the name of the first that begins at the beginning."""
    at = ["--bootstrap", broker.bootstrap]
    command("topic", "create", *at, name)
    command("topic", "create", *at, f"dlq.{name}", "--config", "errors.deadletterqueue.group.enable=true")
    given = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): value for key, value in settings.items()}}
    command("config", "set", *at, "--group", name, *(f"{key}={value}" for key, value in given.items()))


def produce(broker: BrokerProcess, topic: str, *values: bytes) -> None:
    with SyncProducer(broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, key=value, headers=[("kept", b"yes")])


def work(
    broker: BrokerProcess, name: str, verdicts: Verdicts, until: Callable[[list[ShareRecord]], bool]
) -> list[ShareRecord]:
    """Be a member that settles each record as it is told, else accepts it, until enough were seen or 120 s are over."""
    seen: list[ShareRecord] = []
    end = time.monotonic() + 120
    options = ShareConsumerOptions(name, acknowledgement_mode=AcknowledgementMode.EXPLICIT)
    with SyncShareConsumer(broker.bootstrap, options) as consumer:
        consumer.subscribe([name])
        while not until(seen) and time.monotonic() < end:
            for record in consumer.poll(timeout_ms=500):
                seen.append(record)
                consumer.acknowledge(record, verdicts.get(record.value or b"", AcknowledgeType.ACCEPT))
            consumer.commit()
    return seen


def letters(broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    command("dlq", "show", "--bootstrap", broker.bootstrap, f"dlq.{name}", "--json")
    found = [each["letter"] for each in json.loads(capsys.readouterr().out)]
    assert all(isinstance(each, dict) for each in found)
    return found


def test_rejected_records_and_those_delivered_too_often_become_letters_and_are_sent_back_once(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(
        broker,
        name,
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name=f"dlq.{name}",
        errors_deadletterqueue_copy_record_enable="true",
    )
    produce(broker, name, b"good", b"rejected", b"poison")
    verdicts = {b"rejected": AcknowledgeType.REJECT, b"poison": AcknowledgeType.RELEASE}
    seen = work(broker, name, verdicts, lambda seen: len(seen) == 4)
    assert [each.delivery_count for each in seen if each.value == b"poison"] == [1, 2]
    found = letters(broker, name, capsys)
    reasons = {each["offset"]: (each["topic"], each["pipeline"], each["reason"], each["attempt"]) for each in found}
    assert reasons == {
        1: (name, name, "Offset rejected by client.", 1),
        2: (name, name, "Offset delivery count exceeded the threshold.", 2),
    }
    at = ["--bootstrap", broker.bootstrap]
    command("dlq", "redrive", *at, f"dlq.{name}", "--reason", "rejected", "--execute")
    command("dlq", "redrive", *at, f"dlq.{name}", "--reason", "rejected", "--execute")
    again = work(broker, name, verdicts, lambda seen: len(seen) == 1)
    assert [(each.value, each.partition, dict(each.headers)) for each in again] == [
        (b"rejected", 0, {"kept": b"yes", "__ottla.errors.replays": b"1"})
    ]
    assert sorted(each["replays"] for each in letters(broker, name, capsys)) == [0, 0, 1]
    capsys.readouterr()
    command("dlq", "redrive", *at, f"dlq.{name}", "--reason", "rejected", "--max-replays", "1", "--json")
    plan = json.loads(capsys.readouterr().out)
    assert plan["sent"] == []
    assert [each["why"] for each in plan["refused"]] == ["sent back too often"]


def test_letters_without_copies_say_where_the_record_is_and_are_not_sent_back(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name, errors_deadletterqueue_topic_name=f"dlq.{name}")
    produce(broker, name, b"rejected")
    work(broker, name, {b"rejected": AcknowledgeType.REJECT}, lambda seen: len(seen) == 1)
    [letter] = letters(broker, name, capsys)
    assert (letter["topic"], letter["offset"]) == (name, 0)
    capsys.readouterr()
    command("dlq", "redrive", "--bootstrap", broker.bootstrap, f"dlq.{name}", "--json")
    assert [each["why"] for each in json.loads(capsys.readouterr().out)["refused"]] == ["cut"]


def test_a_backoff_is_kept_when_the_broker_is_killed(new_broker: Callable[..., BrokerProcess], name: str) -> None:
    broker = new_broker().start()
    prepare(broker, name, ottla_retry_backoff_ms="3000", ottla_retry_backoff_jitter_percent="0")
    produce(broker, name, b"later")
    before = time.time()
    released = work(broker, name, {b"later": AcknowledgeType.RELEASE}, lambda seen: len(seen) == 1)
    broker.kill()
    broker.start()
    again = work(broker, name, {}, lambda seen: len(seen) == 1)
    assert [each.delivery_count for each in released + again] == [1, 2]
    assert time.time() >= before + 3, "it was released after that"


def test_records_that_say_when_they_are_too_old_become_letters_then(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name, errors_deadletterqueue_topic_name=f"dlq.{name}")
    command("config", "set", "--bootstrap", broker.bootstrap, "--topic", name, "ottla.ttl.header=true")
    with SyncProducer(broker.bootstrap) as producer:
        hour_ago = int(time.time() * 1_000) - 3_600_000
        for value, ttl in ((b"too old", b"3599000"), (b"in time", b"7200000"), (b"for ever", b"soon")):
            producer.send(name, value, timestamp_ms=hour_ago, headers=[("ottla-ttl", ttl)])
    seen = work(broker, name, {}, lambda seen: len(seen) == 2)
    assert [each.value for each in seen] == [b"in time", b"for ever"]

    def is_written() -> bool:
        return len(letters(broker, name, capsys)) == 1

    wait_until(is_written, "the letter", 60)
    [letter] = letters(broker, name, capsys)
    assert (letter["offset"], letter["reason"], letter["attempt"]) == (0, "Time to live is over.", 0)


def test_a_group_does_not_write_letters_to_the_topic_that_it_reads(broker: BrokerProcess, name: str) -> None:
    at = ["--bootstrap", broker.bootstrap]
    command("topic", "create", *at, name, "--config", "errors.deadletterqueue.group.enable=true")
    own = (f"errors.deadletterqueue.topic.name={name}", "errors.deadletterqueue.copy.record.enable=true")
    command("config", "set", *at, "--group", name, "share.auto.offset.reset=earliest", *own)
    produce(broker, name, b"bad")
    work(broker, name, {b"bad": AcknowledgeType.REJECT}, bool)
    produce(broker, name, b"next")
    # What is behind it would be the letter, if there were one.
    seen = work(broker, name, {}, bool)
    assert [each.value for each in seen] == [b"next"]
    assert seen[0].offset == 1


def test_the_history_of_a_record_says_who_had_it_and_how_it_ended(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name, ottla_history_ms="600000", share_delivery_count_limit="2")
    produce(broker, name, b"good", b"poison")
    work(broker, name, {b"poison": AcknowledgeType.RELEASE}, lambda seen: len(seen) == 3)
    told = []
    for offset in ("0", "1", "2"):
        capsys.readouterr()
        command("group", "history", "--bootstrap", broker.bootstrap, name, "0", offset, "--group", name, "--json")
        events = json.loads(capsys.readouterr().out)
        assert {each["group_id"] for each in events} <= {name}
        told.append([(each["what"], each["deliveries"], bool(each["member_id"])) for each in events])
    assert told == [
        [("delivered", 1, True), ("accepted", 1, False)],
        [
            ("delivered", 1, True),
            ("released", 1, False),
            ("delivered", 2, True),
            ("archived: delivered too often", 2, False),
        ],
        [],
    ]
    capsys.readouterr()
    command("group", "history", "--bootstrap", broker.bootstrap, name, "0", "0")
    assert "accepted" in capsys.readouterr().out
    command("group", "history", "--bootstrap", broker.bootstrap, name, "0", "99")
    assert f"nothing is known of {name}-0@99" in capsys.readouterr().err
