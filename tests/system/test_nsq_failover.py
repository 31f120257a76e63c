"""NSQ clients of three brokers whose leader is killed look up, read on, and lose nothing that was acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.system.nsq_client import NsqClient
from tests.system.test_lookupd import LookupdProcess
from tests.system.test_nsq import LISTENERS, address, request
from tests.system.test_nsq_cluster_lookup import ask

PYNSQ_READER = Path(__file__).with_name("pynsq_reader.py")
TOPIC, CHANNEL = "clicks", "archive"
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


@pytest.mark.long
def test_a_client_reads_on_when_the_leader_is_killed(tmp_path: Path) -> None:
    lookupd = LookupdProcess()
    settings = {
        **LISTENERS,
        **REPLICATED,
        "nsq.lookupd.http.listener": "127.0.0.1:0",
        "nsq.lookupd.tcp.addresses": f"{lookupd.tcp[0]}:{lookupd.tcp[1]}",
        "nsq.broadcast.address": "127.0.0.1",
    }
    with Cluster(tmp_path, settings=settings) as cluster:
        cluster.wait_until_registered()

        def looked_up() -> list[tuple[str, int]]:
            _, document = lookupd.ask(f"/lookup?topic={TOPIC}")
            return [(each["broadcast_address"], each["tcp_port"]) for each in document.get("producers", ())]

        def others() -> list[BrokerProcess]:
            leader = cluster.leader(TOPIC)
            return [each for each in cluster.brokers.values() if each.is_running and each is not leader]

        def published() -> bool:
            """Where the leader dies meanwhile, a publisher is told that it is not known, and tries again."""
            publisher = NsqClient(address(next(each for each in cluster.brokers.values() if each.is_running)))
            publisher.send(f"PUB {TOPIC}".encode(), b"after")
            return publisher.frame()[1] == b"OK"

        some = next(iter(cluster.brokers.values()))
        NsqClient(address(some)).publish(TOPIC, b"m0")
        cluster.wait_until_in_sync(TOPIC)
        everywhere = {address(each) for each in cluster.brokers.values()}
        wait_until(lambda: set(looked_up()) == everywhere, "the replicas are looked up")
        NsqClient(address(others()[0])).publish(TOPIC, *(b"m%d" % number for number in range(1, 10)))
        first = NsqClient(address(cluster.leader(TOPIC))).subscribe(TOPIC, CHANNEL, 5)
        finished = [first.message() for _ in range(5)]
        for message in finished:
            first.finish(message)
        first.send(b"RDY 0")
        first.send(b"CLS")
        while first.frame()[1] != b"CLOSE_WAIT":
            pass
        first.close()
        later = [NsqClient(address(cluster.leader(TOPIC))).subscribe(TOPIC, f"later{n}", 1) for n in range(4)]
        publisher = NsqClient(address(others()[1]))
        publisher.publish(TOPIC, b"news")
        for each in later:
            assert each.message().body == b"news", "a later channel begins at the end, whoever coordinates it"
            each.close()
        paused = NsqClient(address(cluster.leader(TOPIC))).subscribe(TOPIC, "paused", 1)
        for broker in cluster.brokers.values():  # two of them are not the controller
            assert request(broker, "POST", f"/channel/pause?topic={TOPIC}&channel=paused")[0] == 200
            assert request(broker, "POST", f"/channel/unpause?topic={TOPIC}&channel=paused")[0] == 200
        publisher.publish(TOPIC, b"news")
        assert paused.message().body == b"news"
        paused.close()
        idle = NsqClient(address(cluster.leader(TOPIC))).subscribe(TOPIC, "idle", 1)
        assert request(others()[0], "POST", f"/channel/delete?topic={TOPIC}&channel=idle")[0] == 200
        with pytest.raises(EOFError):  # the leader looks every few seconds
            idle.frame()
        publisher.publish("idle", b"m")
        idle = NsqClient(address(cluster.leader("idle"))).subscribe("idle", "c", 0)
        assert request(others()[0], "POST", "/topic/delete?topic=idle")[0] == 200
        with pytest.raises(EOFError):
            idle.frame()
        command = [sys.executable, str(PYNSQ_READER), f"http://{lookupd.http[0]}:{lookupd.http[1]}", TOPIC, CHANNEL]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            seen: dict[str, str] = {}

            def read_until(body: str) -> None:
                assert reader.stdout is not None
                while body not in seen.values():
                    message_id, its_body = json.loads(reader.stdout.readline())
                    seen[message_id] = its_body

            try:
                read_until("news")
                cluster.leader(TOPIC).kill()
                wait_until(published, "a broker has taken the message")
                read_until("after")
            finally:
                reader.terminate()
        for broker in cluster.brokers.values():
            if broker.is_running:
                told = ask(broker, f"/lookup?topic={TOPIC}")[1]["producers"]
                found = {(each["broadcast_address"], each["tcp_port"]) for each in told}
                left = {address(each) for each in cluster.brokers.values() if each.is_running}
                assert found == left, "brokers say the same without a lookup service"
                name = f"gone-{broker.port}"
                assert request(broker, "POST", f"/topic/create?topic={name}")[0] == 200
                assert request(broker, "POST", f"/topic/delete?topic={name}")[0] == 200
        done = {message.message_id.decode() for message in finished}
        assert not done & seen.keys(), "what was finished and stored is not delivered again"
        assert {f"m{number}" for number in range(10)} == {message.body.decode() for message in finished} | (
            set(seen.values()) - {"after", "news"}
        )
    lookupd.close()
