"""Brokers of a cluster that answer as nsqlookupd from what the cluster agreed on."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from typing import Any

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, address, http_address, request

SETTINGS = {
    **LISTENERS,
    "nsq.lookupd.http.listener": "127.0.0.1:0",
    "nsq.broadcast.address": "127.0.0.1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


def ask(broker: BrokerProcess, path: str, method: str = "GET") -> tuple[int, Any]:
    """Status and document of its lookup service."""
    found = re.search(r"nsq-lookupd (\S+):(\d+)", broker.ready_line)
    assert found is not None, broker.ready_line
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body.startswith(b"{") else body
    finally:
        connection.close()


def depths(broker: BrokerProcess) -> list[int]:
    """Of the channels of clicks."""
    (topic,) = json.loads(request(broker, "GET", "/stats?format=json&topic=clicks")[1])["topics"]
    return [channel["depth"] for channel in topic["channels"]]


def test_every_broker_knows_where_a_topic_is_read(tmp_path: Path) -> None:
    with Cluster(tmp_path, count=2, settings=SETTINGS) as cluster:
        cluster.wait_until_registered()
        one, other = cluster.brokers.values()

        def looked_up(broker: BrokerProcess) -> list[tuple[str, int, int]]:
            _, found = ask(broker, "/lookup?topic=clicks")
            return [
                (each["broadcast_address"], each["tcp_port"], each["http_port"]) for each in found.get("producers", ())
            ]

        def is_looked_up() -> bool:
            """Also the channel, which another broker hears of after the topic."""
            return all(
                looked_up(each) == expected and ask(each, "/channels?topic=clicks")[1] == {"channels": ["archive"]}
                for each in (one, other)
            )

        assert ask(one, "/lookup?topic=clicks") == (404, {"message": "TOPIC_NOT_FOUND"})
        assert ask(one, "/topic/create?topic=clicks", "POST")[0] == 200
        assert ask(one, "/channel/create?topic=clicks&channel=archive", "POST")[0] == 200
        leader = cluster.leader("clicks")
        expected = [(*address(leader), http_address(leader)[1])]
        wait_until(is_looked_up, "the leader is looked up")
        for broker in (one, other):
            assert ask(broker, "/channels?topic=clicks") == (200, {"channels": ["archive"]})
            assert "clicks" in ask(broker, "/topics")[1]["topics"]
            nodes = ask(broker, "/nodes")[1]["producers"]
            assert {each["tcp_port"] for each in nodes} == {address(one)[1], address(other)[1]}
            assert [each["tcp_port"] for each in nodes if "clicks" in each["topics"]] == [address(leader)[1]]
            assert all(len(each["topics"]) == len(each["tombstones"]) for each in nodes)
        NsqClient(address(one)).publish("clicks", b"m0")
        reader = NsqClient(address(leader)).subscribe("clicks", "archive", 1)
        assert reader.message().body == b"m0", "the channel was made before the first message"
        follower = other if leader is one else one
        assert ask(follower, "/topic/delete?topic=clicks", "POST")[0] == 200
        assert ask(follower, "/channel/delete?topic=clicks&channel=none", "POST")[0] == 404
        assert looked_up(follower) == expected, "it is deleted at a broker"
        NsqClient(address(one)).publish("clicks", b"m1", b"m2")
        emptied = request(follower, "POST", "/channel/empty?topic=clicks&channel=archive")
        assert emptied[0] == 200, "it asks the leader where the topic ends"
        reader.send(b"CLS")
        while reader.frame()[1] != b"CLOSE_WAIT":
            pass
        reader.close()
        wait_until(lambda: depths(leader) == [0], "nothing waits at the leader")
        assert request(leader, "POST", "/topic/create?topic=unread")[0] == 200
        unread = cluster.leader("unread")
        NsqClient(address(one)).publish("unread", b"m0", b"m1")
        follower = other if unread is one else one
        assert request(follower, "POST", "/topic/empty?topic=unread")[0] == 200, "it asks the leader"
        (emptied,) = json.loads(request(unread, "GET", "/stats?format=json&topic=unread")[1])["topics"]
        assert emptied["depth"] == 0
        assert request(leader, "POST", "/topic/delete?topic=clicks")[0] == 200
        wait_until(lambda: looked_up(follower) == [], "it is gone")
