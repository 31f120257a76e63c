"""NSQ clients of three brokers get the messages of a channel at any of them, and go on when one is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.system.nsq_client import Message, NsqClient
from tests.system.test_nsq import LISTENERS, address, request
from tests.system.test_nsq_failover import REPLICATED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, all replicas of all."""
    directory: Path = tmp_path_factory.mktemp("brokers")
    with Cluster(directory, settings={**LISTENERS, **REPLICATED}) as cluster:
        cluster.wait_until_registered()
        yield cluster


def brokers(cluster: Cluster) -> list[BrokerProcess]:
    return [each for each in cluster.brokers.values() if each.is_running]


def closed(client: NsqClient) -> None:
    """Close it once all that it said is stored."""
    client.send(b"CLS")
    while client.frame()[1] != b"CLOSE_WAIT":
        pass
    client.close()


def until_the_end(client: NsqClient) -> None:
    """Errors of what was not stored before, and the end. Raises EOFError."""
    while client.frame()[0] == 1:
        pass


def finished(client: NsqClient, count: int) -> list[Message]:
    """So many messages, each finished when it comes."""
    found = []
    for _ in range(count):
        found.append(client.message())
        client.finish(found[-1])
    return found


def test_clients_that_subscribe_everywhere_at_once_share_all_that_waited(cluster: Cluster) -> None:
    NsqClient(address(brokers(cluster)[0])).publish("waiting", *(b"m%d" % number for number in range(30)))
    clients = [NsqClient(address(each)) for each in brokers(cluster)]
    for client in clients:
        client.send(b"SUB waiting c")
    assert [client.response() for client in clients] == [b"OK"] * 3
    got = []
    for client in clients:
        client.send(b"RDY 10")
    for client in clients:
        held = [client.message() for _ in range(10)]
        client.send(b"RDY 0")
        for message in held:
            client.finish(message)
        got += held
        closed(client)
    assert {message.body for message in got} == {b"m%d" % number for number in range(30)}
    assert {message.attempts for message in got} == {1}


def test_a_broker_that_does_not_lead_puts_back_touches_and_finishes(cluster: Cluster) -> None:
    NsqClient(address(brokers(cluster)[0])).publish("touched", b"m0", b"m1")
    other = next(each for each in brokers(cluster) if each is not cluster.leader("touched"))
    client = NsqClient(address(other)).subscribe("touched", "c", 1)
    first = client.message()
    client.send(b"TOUCH " + first.message_id)
    client.send(b"REQ " + first.message_id + b" 100")
    second = client.message()
    assert (second.body, second.attempts) == (b"m1", 1)
    client.finish(second)
    again = client.message()
    assert (again.message_id, again.attempts) == (first.message_id, 2)
    client.finish(again)
    client.finish(again)
    assert client.error() == b"E_FIN_FAILED FIN " + again.message_id + b" failed ID not in flight"
    closed(client)
    (topic,) = json.loads(request(cluster.leader("touched"), "GET", "/stats?format=json&topic=touched")[1])["topics"]
    assert [(each["depth"], each["in_flight_count"]) for each in topic["channels"]] == [(0, 0)]


@pytest.mark.parametrize("at", ["leader", "follower"])
def test_what_was_finished_before_a_client_closes_under_load_never_comes_again(cluster: Cluster, at: str) -> None:
    topic, count = f"load-{at}", 600
    publisher = NsqClient(address(brokers(cluster)[0]))
    publisher.publish(topic, b"first")
    leader = cluster.leader(topic)
    place = leader if at == "leader" else next(each for each in brokers(cluster) if each is not leader)
    client = NsqClient(address(place)).subscribe(topic, "c", 50)
    finished: set[bytes] = set()
    for piece in range(6):
        publisher.publish(topic, *(b"m%d" % number for number in range(piece * 100, piece * 100 + 100)))
        for _ in range(50):
            message = client.message()
            client.finish(message)
            finished.add(message.message_id)
    client.send(b"CLS")
    held = []
    while (frame := client.frame())[1] != b"CLOSE_WAIT":
        held.append(frame[1][10:26])
    assert held, "it closes while messages come"
    for message_id in held[::2]:
        client.send(b"FIN " + message_id)
        finished.add(message_id)
    for message_id in held[1::2]:
        client.send(b"REQ " + message_id + b" 0")
    client.close()
    rest = NsqClient(address(leader)).subscribe(topic, "c", 2_500)
    left = {rest.message().message_id for _ in range(count + 1 - len(finished))}
    assert not left & finished
    assert len(left | finished) == count + 1
    closed(rest)


def test_an_ephemeral_channel_of_three_brokers_goes_with_its_last_client(cluster: Cluster) -> None:
    name = "passing#ephemeral"
    clients = [NsqClient(address(each)).subscribe(name, "c#ephemeral", 0) for each in brokers(cluster)]
    for client in clients[:2]:
        closed(client)
    NsqClient(address(brokers(cluster)[0])).publish(name, b"still there")
    clients[2].send(b"RDY 1")
    assert [each.body for each in finished(clients[2], 1)] == [b"still there"]

    def is_known() -> bool:
        return b"passing" in request(cluster.leader("nsq-ephemeral.passing"), "GET", "/stats?format=json")[1]

    assert is_known()
    closed(clients[2])
    wait_until(
        lambda: all(b"passing" not in request(each, "GET", "/stats?format=json")[1] for each in brokers(cluster)),
        "the topic is gone with its channel",
    )


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_emptied_channel_has_nothing_but_what_comes_later_and_a_deleted_one_no_clients(
    cluster: Cluster, at: int
) -> None:
    topic = f"emptied-{at}"
    NsqClient(address(brokers(cluster)[0])).publish(topic, *(b"m%d" % number for number in range(5)))
    leader = cluster.leader(topic)
    other, third = (each for each in brokers(cluster) if each is not leader)
    asked = (leader, other, third)[at]
    client = NsqClient(address(other)).subscribe(topic, "c", 1)
    assert client.message().attempts == 1
    assert request(asked, "POST", f"/channel/empty?topic={topic}&channel=c")[0] == 200
    NsqClient(address(leader)).publish(topic, b"new")
    message = client.message()
    assert message.body == b"new", "and what it held before takes no room"
    client.finish(message)
    assert request(asked, "POST", f"/channel/delete?topic={topic}&channel=c")[0] == 200
    with pytest.raises(EOFError):
        until_the_end(client)


def test_brokers_that_are_asked_for_statistics_at_once_do_not_wait_for_each_other(cluster: Cluster) -> None:
    for number in range(12):
        topic, broker = f"asked-{number % 3}", brokers(cluster)[number % 3]
        NsqClient(address(broker)).subscribe(topic, f"c{number}", 0).close()

    def ask(broker: BrokerProcess) -> set[int]:
        return {request(broker, "GET", "/stats?format=json")[0] for _ in range(10)}

    with ThreadPoolExecutor(9) as threads:
        answers = list(threads.map(ask, brokers(cluster) * 3))
    assert answers == [{200}] * 9, "who waits for another broker gives up after a while"


def test_a_client_goes_on_at_a_broker_that_is_left_when_the_leader_is_killed(cluster: Cluster) -> None:
    """The last of this file: it leaves two brokers."""
    publisher = NsqClient(address(brokers(cluster)[0]))
    publisher.publish("killed", *(b"m%d" % number for number in range(10)))
    cluster.wait_until_in_sync("killed")
    leader = cluster.leader("killed")
    client = NsqClient(address(next(each for each in brokers(cluster) if each is not leader)))
    client.subscribe("killed", "c", 1)
    done = finished(client, 5)
    held = client.message()
    client.send(b"RDY 0")
    leader.kill()

    def published() -> bool:
        """Where the leader dies meanwhile, a publisher is told that it is not known, and tries again."""
        publisher = NsqClient(address(brokers(cluster)[0]))
        publisher.send(b"PUB killed", b"after")
        return publisher.frame()[1] == b"OK"

    wait_until(published, "a broker has taken the message")
    client.finish(held)  # of the leader that is gone
    client.send(b"RDY 1")
    seen: set[bytes] = set()
    while b"after" not in seen:
        kind, data = client.frame()
        if kind == 2:
            client.send(b"FIN " + data[10:26])
            seen.add(data[26:])
    assert seen >= {b"m%d" % number for number in range(10)} - {each.body for each in done}
    closed(client)
