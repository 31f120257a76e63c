"""Clients push their metrics by themselves, the broker keeps them, and the command line shows them (KIP-714)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Producer

from tests.broker_process import BrokerProcess
from tests.system.test_cli import DEADLINE_S, Cli
from tests.system.test_compatibility import TELEMETRY, advertised

NewBroker = Callable[..., BrokerProcess]


def pushed_by(cli: Cli, client_id: str, poll: Callable[[], object]) -> dict[str, Any]:
    """What `ottla client-metrics list` says of a client, once it has pushed."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        poll()
        for each in json.loads(cli.ok("client-metrics", "list", "--json")):
            if each["client_id"] == client_id:
                return dict(each)
    raise AssertionError(f"{client_id} has pushed nothing in {DEADLINE_S} s")


def test_librdkafka_pushes_what_it_is_asked_for_and_it_is_kept_over_a_crash(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    cli = Cli(broker)
    assert json.loads(cli.ok("client-metrics", "list", "--json")) == []
    wanted, other = f"pushes-{uuid4().hex[:8]}", f"silent-{uuid4().hex[:8]}"
    settings = ("metrics=org.apache.kafka.producer.", "interval.ms=100", "match=client_id=pushes-.*")
    cli.ok("config", "set", "--client-metrics", "producers", *settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": wanted})
    silent = Consumer({"bootstrap.servers": broker.bootstrap, "client.id": other, "group.id": other})
    silent.subscribe(["t"])

    def poll() -> None:
        producer.produce("t", b"value")
        producer.flush(DEADLINE_S)
        silent.poll(0)

    found = pushed_by(cli, wanted, poll)
    assert (found["client_software_name"], found["client_source_address"]) == ("confluent-kafka-python", "127.0.0.1")
    assert found["bytes"] > 0
    [shown] = json.loads(cli.ok("client-metrics", "show", wanted, "--json"))
    names = {each["name"] for each in shown["metrics"]}
    assert "org.apache.kafka.producer.connection.creation.rate" in names
    assert all(name.startswith("org.apache.kafka.producer.") for name in names)
    assert b"org.apache.kafka.producer.connection.creation.rate" in cli.ok("client-metrics", "show", wanted)
    silent.close()
    broker.kill()
    broker.start()
    instances = json.loads(cli.ok("client-metrics", "list", "--json"))
    assert {each["client_id"] for each in instances} == {wanted}
    refused = cli.run("client-metrics", "show", other)
    assert refused.returncode != 0
    assert b"has pushed metrics" in refused.stderr


def test_clients_are_told_of_telemetry_while_metrics_are_asked_for_and_received(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    cli = Cli(broker)
    assert not TELEMETRY & set(advertised(broker))
    cli.ok("config", "set", "--client-metrics", "all", "metrics=*")
    assert set(advertised(broker)) >= TELEMETRY
    broker.stop()
    broker.start()
    assert set(advertised(broker)) >= TELEMETRY
    cli.ok("config", "delete", "--client-metrics", "all", "metrics")
    assert not TELEMETRY & set(advertised(broker))
    cli.ok("config", "set", "--client-metrics", "all", "metrics=*")
    broker.stop()
    broker.settings["telemetry.receiver.enable"] = "false"
    broker.start()
    assert not TELEMETRY & set(advertised(broker))
