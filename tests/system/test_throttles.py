"""A throttle ends with the move that it was set for, and no sooner; what others set stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from ottla.cli.replication_throttle import RATES, REPLICAS
from tests.cluster import Cluster, wait_until

MIB = 1 << 20
FAST = str(100 * MIB)


class Operator:
    """Runs commands on a cluster of three brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def run(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "ottla.cli", *arguments]
        environment = {**os.environ, "OTTLA_BOOTSTRAP": self.cluster.bootstrap}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def move(self, topic: str, *replicas: int, code: int = 0, options: tuple[str, ...] = ()) -> str:
        plan = self.cluster.directory / "plan.json"
        plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
        return self.run("topic", "reassign", "--plan", str(plan), "--execute", *options, code=code)

    def topic_on(self, name: str, broker: int, mebibytes: int) -> str:
        self.cluster.create_topic(name, 1, replication_factor=1)
        self.move(name, broker)
        wait_until(lambda: self.cluster.partition(name).leader == broker, f"{name} on broker {broker}")
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "log.connection.close": False}, logger=None
        )
        for _ in range(mebibytes):
            producer.produce(name, os.urandom(MIB - 65_536))
            producer.flush()
        return name

    def set_on(self, kind: str, name: str) -> dict[str, str]:
        """The throttle that is set on a topic or broker."""
        names = REPLICAS if kind == "topic" else RATES
        said = json.loads(self.run("config", "list", f"--{kind}", name, "--changed", "--json"))
        return {each["name"]: each["value"] for each in said if each["name"] in names}

    def wait_for(self, kind: str, name: str, expected: dict[str, str]) -> None:
        wait_until(lambda: self.set_on(kind, name) == expected, f"{expected} on {kind} {name}")


@pytest.fixture
def operator(new_cluster: Callable[..., Cluster]) -> Operator:
    cluster = new_cluster(3).start()
    cluster.wait_until_registered()
    return Operator(cluster)


def rates(value: str) -> dict[str, str]:
    return dict.fromkeys(RATES, value)


def test_a_throttle_ends_with_its_own_move_and_takes_nothing_of_others(operator: Operator) -> None:
    leaders, followers = REPLICAS
    slow, quick = operator.topic_on("slow", 1, 4), operator.topic_on("quick", 1, 1)
    operator.run("config", "set", "--topic", slow, f"{followers}=5:2")
    operator.run("config", "set", "--broker", "2", f"{RATES[0]}=12345678")

    said = operator.move(slow, 1, 3, options=("--throttle", "1", "--no-wait"))
    assert "`ottla topic reassign slow --verify`" in said
    of_slow = {leaders: "0:1", followers: "5:2,0:3"}
    operator.wait_for("topic", slow, of_slow)
    operator.wait_for("broker", "3", rates("1"))

    # Another move begins and ends, and is verified: the first one stays as it is.
    assert "other partitions are still moving" in operator.move(quick, 1, 2, options=("--throttle", FAST))
    operator.wait_for("topic", quick, {})
    operator.run("topic", "reassign", quick, "--verify")
    operator.wait_for("topic", slow, of_slow)
    operator.wait_for("broker", "3", rates("1"))
    (moving,) = json.loads(operator.run("topic", "reassign", "--verify", "--json"))["moving"]
    assert moving == {"topic": slow, "partition": 0, "replicas": [1, 3], "adding": [3], "removing": []}

    # The end of the last one: the entry that was set by hand stays.
    assert json.loads(operator.run("topic", "reassign", slow, "--cancel", "--json")) == {
        "moving": [],
        "cancelled": [{"topic": slow, "partition": 0}],
        "throttle_removed": True,
        "throttled_topics": [],
    }
    operator.wait_for("topic", slow, {followers: "5:2"})


def test_what_is_refused_or_over_leaves_no_throttle_and_rates_set_by_hand_stay(operator: Operator) -> None:
    topic = operator.topic_on("t", 1, 1)
    operator.run("config", "set", "--broker", "2", f"{RATES[1]}=12345678")
    by_hand = {RATES[1]: "12345678"}

    assert "broker 9 is not running" in operator.move(topic, 1, 9, code=3, options=("--throttle", FAST))
    assert "leave out --no-wait" in operator.move(topic, 1, 2, code=1, options=("--throttle", FAST, "--no-wait"))
    for broker, expected in (("1", {}), ("2", by_hand), ("3", {})):
        operator.wait_for("broker", broker, expected)
    operator.wait_for("topic", topic, {})

    operator.move(topic, 1, 2, options=("--throttle", FAST))
    operator.wait_for("topic", topic, {})
    operator.wait_for("broker", "1", {})
    operator.wait_for("broker", "2", by_hand)

    # A broker that is lost cannot be told of a rate: those that copy are.
    operator.move(topic, 1, 3)
    operator.cluster.brokers[3].kill()
    wait_until(lambda: operator.cluster.serving(1) == 2, "two brokers")
    said = operator.run("cluster", "decommission", "3", "--execute", "--throttle", FAST)
    assert "broker 3 is not throttled: broker 3 is not running" in said
    assert "broker 3 has no replicas left. It is not running" in said
    operator.wait_for("broker", "1", {})
    operator.wait_for("broker", "2", by_hand)
