"""NSQ clients at a running broker: published, pushed, settled; beside Kafka's clients, and over a restart."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer

from ottla.cli.main import run as run_command
from ottla.client import ShareConsumerOptions, SyncShareConsumer
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.nsq_client import NsqClient
from tests.unit.gateways.nsq.test_layers import self_signed
from tools.ports import free_ports

LISTENERS = {"nsq.listener": "127.0.0.1:0", "nsq.http.listener": "127.0.0.1:0"}
PYNSQ_ROUND = Path(__file__).with_name("pynsq_round.py")
PYNSQ_GIVING_UP = Path(__file__).with_name("pynsq_giving_up.py")


def address(broker: BrokerProcess) -> tuple[str, int]:
    """Where it serves NSQ clients."""
    match = re.search(r"nsq (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return match[1], int(match[2])


def http_address(broker: BrokerProcess) -> tuple[str, int]:
    """Where it serves nsqd's HTTP API."""
    match = re.search(r"nsq-http (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return match[1], int(match[2])


@pytest.fixture(scope="module")
def nsq_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("nsq")
    with BrokerProcess(directory / "data", {**LISTENERS, "nsq.tls.cert": str(self_signed(directory))}) as process:
        yield process


@pytest.fixture
def client(nsq_broker: BrokerProcess) -> Callable[[], NsqClient]:
    return lambda: NsqClient(address(nsq_broker))


@pytest.fixture
def topic() -> str:
    return f"clicks-{uuid4().hex[:8]}"


def test_each_channel_gets_every_message_and_each_message_goes_to_one_of_its_clients(
    client: Callable[[], NsqClient], topic: str
) -> None:
    publisher = client()
    publisher.publish(topic, b"m0")
    publisher.publish(topic, b"m1", b"m2")
    first = client().subscribe(topic, "archive", 10)
    backlog = [first.message() for _ in range(3)]
    assert [(each.body, each.attempts) for each in backlog] == [(b"m0", 1), (b"m1", 1), (b"m2", 1)]
    later = client().subscribe(topic, "metrics", 10)
    one, other = client().subscribe(topic, "workers", 1), client().subscribe(topic, "workers", 1)
    publisher.publish(topic, b"m3", b"m4")
    assert [later.message().body, later.message().body] == [b"m3", b"m4"], "a later channel begins at the end"
    assert {one.message().body, other.message().body} == {b"m3", b"m4"}


def test_what_a_client_says_of_a_message_is_obeyed_and_answered_as_by_nsqd(
    client: Callable[[], NsqClient], topic: str
) -> None:
    publisher, reader = client(), client()
    publisher.publish(topic, b"a")
    reader.subscribe(topic, "c", 1)
    first = reader.message()
    assert (first.attempts, first.body, len(first.message_id)) == (1, b"a", 16)
    reader.send(b"REQ " + first.message_id + b" 0")
    again = reader.message()
    assert (again.message_id, again.attempts, again.timestamp_ns) == (first.message_id, 2, first.timestamp_ns)
    reader.send(b"TOUCH " + first.message_id)
    reader.finish(first)
    reader.finish(first)
    assert reader.error() == b"E_FIN_FAILED FIN " + first.message_id + b" failed ID not in flight"
    reader.send(b"CLS")
    assert reader.response() == b"CLOSE_WAIT"
    reader.send(b"SUB t c")
    assert reader.error() == b"E_INVALID cannot SUB in current state"
    with pytest.raises(EOFError):
        reader.frame()


def test_what_is_said_of_a_message_together_with_the_subscription_is_answered_as_by_nsqd(
    client: Callable[[], NsqClient], topic: str
) -> None:
    reader = client()
    settle = b"".join(command % (b"0" * 16) for command in (b"FIN %s\n", b"REQ %s 0\n", b"TOUCH %s\n"))
    reader.send(f"SUB {topic} c\n".encode() + settle + b"NOP")
    assert reader.response() == b"OK"
    assert [reader.error() for _ in range(3)] == [
        b"E_%s_FAILED %s 0000000000000000 failed ID not in flight" % (name, name) for name in (b"FIN", b"REQ", b"TOUCH")
    ]


def test_answers_keep_their_order_before_the_error_that_ends_a_connection(
    client: Callable[[], NsqClient], topic: str
) -> None:
    publisher = client()
    for _ in range(50):
        publisher.send(f"PUB {topic}".encode(), b"x" * 100)
    publisher.send(b"PUB bad$topic", b"x")
    publisher.send(f"PUB {topic}".encode(), b"never looked at")
    assert [publisher.response() for _ in range(50)] == [b"OK"] * 50
    assert publisher.error() == b'E_BAD_TOPIC PUB topic name "bad$topic" is not valid'
    with pytest.raises(EOFError):
        publisher.frame()


def test_messages_are_taken_up_to_the_size_that_nsqd_takes(client: Callable[[], NsqClient], topic: str) -> None:
    publisher, reader = client(), client().subscribe(topic, "c", 10)
    whole = bytes(1024 * 1024)
    publisher.publish(topic, whole)
    publisher.publish(topic, *[whole] * 4, b"x")
    assert [len(reader.message().body) for _ in range(6)] == [len(whole)] * 5 + [1]
    publisher.send(f"PUB {topic}".encode(), whole + b"x")
    assert publisher.error() == b"E_BAD_MESSAGE PUB message too big 1048577 > 1048576"


def test_identify_negotiates_and_heartbeats_find_a_client_that_is_silent(client: Callable[[], NsqClient]) -> None:
    live, silent = client(), client()
    assert live.identify()["max_rdy_count"] == 2500
    silent.identify(heartbeat_interval=1000)
    assert silent._take(8 + 11)[8:] == b"_heartbeat_"
    with pytest.raises((EOFError, ConnectionError)):
        silent._take(1 << 20)
    live.publish("t", b"x")


def test_a_client_that_sends_a_byte_of_a_command_now_and_then_is_silent(client: Callable[[], NsqClient]) -> None:
    slow = client()
    slow.identify(heartbeat_interval=1000)
    beats = 0
    with contextlib.suppress(EOFError, ConnectionError):
        while beats < 10:
            assert slow._take(8 + 11)[8:] == b"_heartbeat_"
            slow._socket.sendall(b"X")
            beats += 1
    assert beats < 10


def test_kafka_records_are_messages_and_messages_are_records(nsq_broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": nsq_broker.bootstrap})
    NsqClient(address(nsq_broker)).publish(topic, b"by nsq")
    producer.produce(topic, b"by kafka", key=b"k")
    producer.flush(60)
    reader = NsqClient(address(nsq_broker)).subscribe(topic, "c", 5)
    assert [reader.message().body, reader.message().body] == [b"by nsq", b"by kafka"]
    consumer = Consumer({"bootstrap.servers": nsq_broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    while len(values) < 2:
        record = consumer.poll(60)
        assert record is not None
        values.append(record.value())
    consumer.close()
    assert values == [b"by nsq", b"by kafka"]


def test_a_channel_is_a_share_group_that_can_be_seen_and_replayed(
    nsq_broker: BrokerProcess, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    channel, where = f"ch-{topic}", ["--bootstrap", nsq_broker.bootstrap]
    NsqClient(address(nsq_broker)).publish(topic, b"a", b"b")
    reader = NsqClient(address(nsq_broker)).subscribe(topic, channel, 2)
    first, second = reader.message(), reader.message()
    reader.finish(first)

    def in_flight() -> bool:
        capsys.readouterr()
        assert run_command(["group", "describe", *where, channel, "--json"]) == 0
        [partition] = json.loads(capsys.readouterr().out)[0]["partitions"]
        return bool((partition["start_offset"], partition["in_flight"], partition["lag"]) == (1, 1, 1))

    wait_until(in_flight, "one message done and one in flight")
    reader.finish(second)
    reset = ["group", "reset", *where, channel, topic, "--to-earliest"]
    assert run_command(reset) == 1
    assert "clients of NSQ or Redis read it; stop them first" in capsys.readouterr().err
    reader.close()
    wait_until(lambda: run_command(reset) == 0, "its client is gone")
    again = NsqClient(address(nsq_broker)).subscribe(topic, channel, 2)
    assert [again.message().body, again.message().body] == [b"a", b"b"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_was_finished_stays_so_over_a_restart_and_the_rest_comes_again(
    new_broker: Callable[..., BrokerProcess], topic: str, how: str
) -> None:
    (port,) = free_ports(1)
    broker = new_broker(nsq_listener=f"127.0.0.1:{port}").start()
    NsqClient(address(broker)).publish(topic, *(b"m%d" % number for number in range(10)))
    reader = NsqClient(address(broker)).subscribe(topic, "c", 10)
    messages = [reader.message() for _ in range(10)]
    for message in messages[:6]:
        reader.finish(message)
    reader.send(b"CLS")
    assert reader.response() == b"CLOSE_WAIT", "what was finished before is on disk"
    getattr(broker, how)()
    broker.start()
    again = NsqClient(address(broker)).subscribe(topic, "c", 10)
    found = [again.message() for _ in range(4)]
    assert [(each.message_id, each.body) for each in found] == [(each.message_id, each.body) for each in messages[6:]]
    assert [each.timestamp_ns for each in found] == [each.timestamp_ns for each in messages[6:]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"snappy": True},
        {"deflate": True, "deflate_level": 3},
        {"tls_v1": True, "snappy": True},
        {"tls_v1": True},
    ],
    ids=repr,
)
def test_the_official_python_client_publishes_reads_and_puts_back(
    nsq_broker: BrokerProcess, topic: str, options: dict[str, Any]
) -> None:
    host, port = address(nsq_broker)
    command = [sys.executable, str(PYNSQ_ROUND), f"{host}:{port}", topic]
    if "tls_v1" in options:
        options = {**options, "tls_options": {"cert_reqs": ssl.CERT_NONE}}
    environment = {**os.environ, "NSQ_OPTIONS": json.dumps(options)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sorted(told) == sorted([[f"m{number}", 1] for number in range(10)] + [["m3", 2]])


def test_the_official_python_client_gives_up_a_message_that_always_fails(
    nsq_broker: BrokerProcess, client: Callable[[], NsqClient], topic: str
) -> None:
    client().publish(topic, b"poison")
    host, port = address(nsq_broker)
    command = [sys.executable, str(PYNSQ_GIVING_UP), f"{host}:{port}", topic, "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[1, "failed"], [2, "failed"], [3, "failed"], [4, "given up"]]
    wait_until(lambda: numbers(channel_of(nsq_broker, topic), "depth", "in_flight_count") == [0, 0], "it is finished")


def request(broker: BrokerProcess, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Ask the HTTP API."""
    connection = http.client.HTTPConnection(*http_address(broker), timeout=60)
    try:
        with contextlib.suppress(ConnectionError):  # it may answer, and close, before the body is sent to the end
            connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def channel_of(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    """The statistics of the only channel of a topic."""
    status, body = request(broker, "GET", f"/stats?format=json&topic={topic}")
    assert status == 200
    [channel] = json.loads(body)["topics"][0]["channels"]
    assert isinstance(channel, dict)
    return channel


def numbers(channel: dict[str, Any], *names: str) -> list[int]:
    return [channel[name] for name in names]


def test_the_http_api_publishes_counts_pauses_and_empties(
    nsq_broker: BrokerProcess, client: Callable[[], NsqClient], topic: str
) -> None:
    def post(path: str, body: bytes = b"") -> bytes:
        status, answer = request(nsq_broker, "POST", path, body)
        assert status == 200, answer
        return answer

    assert post(f"/pub?topic={topic}", b"m0") == b"OK"
    assert post(f"/mpub?topic={topic}", b"m1\nm2\n") == b"OK"
    too_big = request(nsq_broker, "POST", f"/pub?topic={topic}", bytes(2 * 1024 * 1024))
    assert too_big == (413, b'{"message":"MSG_TOO_BIG"}')
    assert request(nsq_broker, "GET", "//[")[0] == 400, "no path"
    reader = client()
    reader.identify(client_id="worker", user_agent="by hand")
    reader.subscribe(topic, "c", 2)
    first, second = reader.message(), reader.message()
    channel = channel_of(nsq_broker, topic)
    assert numbers(channel, "depth", "in_flight_count", "message_count", "client_count") == [1, 2, 3, 1]
    [shown] = channel["clients"]
    assert [shown[name] for name in ("client_id", "user_agent", "state", "ready_count", "in_flight_count")] == [
        "worker",
        "by hand",
        3,
        2,
        2,
    ]
    post(f"/channel/pause?topic={topic}&channel=c")
    assert channel_of(nsq_broker, topic)["paused"] is True
    reader.send(b"REQ " + first.message_id + b" 0")
    reader.finish(second)
    wait_until(lambda: numbers(channel_of(nsq_broker, topic), "depth", "in_flight_count") == [2, 0], "both are back")
    post(f"/channel/unpause?topic={topic}&channel=c")
    assert sorted([reader.message().body, reader.message().body]) == [b"m0", b"m2"]
    assert numbers(channel_of(nsq_broker, topic), "requeue_count") == [1]
    post(f"/mpub?topic={topic}", b"dropped\n" * 5)
    post(f"/channel/empty?topic={topic}&channel=c")
    assert numbers(channel_of(nsq_broker, topic), "depth", "in_flight_count") == [0, 0]
    post(f"/pub?topic={topic}", b"after")
    assert reader.message().body == b"after"
    post(f"/channel/delete?topic={topic}&channel=c")
    with pytest.raises((EOFError, ConnectionError)):
        reader.frame()
    assert request(nsq_broker, "POST", f"/channel/delete?topic={topic}&channel=c")[0] == 404
    post(f"/topic/delete?topic={topic}")
    assert request(nsq_broker, "POST", f"/topic/delete?topic={topic}")[0] == 404


def test_an_ephemeral_channel_goes_with_its_last_client_and_an_ephemeral_topic_with_its_last_channel(
    nsq_broker: BrokerProcess, client: Callable[[], NsqClient], topic: str
) -> None:
    one = client().subscribe(f"{topic}#ephemeral", "a#ephemeral", 1)
    other = client().subscribe(f"{topic}#ephemeral", "a#ephemeral", 1)

    def topics() -> list[str]:
        document = json.loads(request(nsq_broker, "GET", "/stats?format=json")[1])
        return [each["topic_name"] for each in document["topics"]]

    one.close()
    client().publish(f"{topic}#ephemeral", b"still there")
    assert other.message().body == b"still there"
    assert f"{topic}#ephemeral" in topics()
    other.close()
    wait_until(lambda: f"{topic}#ephemeral" not in topics(), "it is gone")


def test_a_message_of_dpub_comes_when_it_is_due_and_outlives_the_broker(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    (port,) = free_ports(1)
    broker = new_broker(nsq_listener=f"127.0.0.1:{port}").start()
    publisher = NsqClient(address(broker))
    # In whole milliseconds, as the broker counts them.
    begun_ms = time.time_ns() // 1_000_000
    publisher.send(f"DPUB {topic} 2000".encode(), b"later")
    assert publisher.response() == b"OK"
    publisher.publish(topic, b"now")
    is_behind = time.time_ns() // 1_000_000 - begun_ms >= 2_000
    broker.kill()
    broker.start()
    reader = NsqClient(address(broker)).subscribe(topic, "c", 2)
    first, second = reader.message(), reader.message()
    assert time.time_ns() // 1_000_000 - begun_ms >= 2_000, "never early"
    assert {first.body, second.body} == {b"now", b"later"}
    assert first.body == b"now" or is_behind, "nothing waits behind a message that is not due"


def test_messages_of_dpub_that_wait_are_deferred_in_each_channel(nsq_broker: BrokerProcess, topic: str) -> None:
    def topic_now() -> dict[str, Any]:
        (document,) = json.loads(request(nsq_broker, "GET", f"/stats?format=json&topic={topic}")[1])["topics"]
        assert isinstance(document, dict)
        return document

    publisher = NsqClient(address(nsq_broker))
    publisher.publish(topic, b"now")
    publisher.send(f"DPUB {topic} 3600000".encode(), b"later")
    assert publisher.response() == b"OK"
    assert request(nsq_broker, "POST", f"/pub?topic={topic}&defer=3600000", b"too") == (200, b"OK")
    wait_until(lambda: numbers(topic_now(), "depth", "message_count") == [3, 3], "they wait in the topic")
    reader = NsqClient(address(nsq_broker)).subscribe(topic, "c", 1)
    reader.finish(reader.message())
    asked = "depth", "in_flight_count", "deferred_count", "message_count"
    wait_until(lambda: numbers(channel_of(nsq_broker, topic), *asked) == [0, 0, 2, 3], "two are deferred")
    assert numbers(topic_now(), "depth", "message_count") == [0, 3]


def test_a_group_of_kafka_members_is_a_channel_and_a_job_goes_from_one_to_the_other(
    nsq_broker: BrokerProcess, topic: str
) -> None:
    group, others = f"g-{topic}", f"{topic}-others"
    NsqClient(address(nsq_broker)).publish(others, b"not theirs")
    setting = ["--bootstrap", nsq_broker.bootstrap, "--group", group, "share.auto.offset.reset=earliest"]
    assert run_command(["config", "set", *setting]) == 0
    with SyncShareConsumer(nsq_broker.bootstrap, ShareConsumerOptions(group)) as member:

        def polled() -> tuple[bytes | None, int]:
            found: list[tuple[bytes | None, int]] = []

            def has_polled() -> bool:
                found.extend((record.value, record.delivery_count) for record in member.poll(timeout_ms=500))
                return bool(found)

            wait_until(has_polled, "the member has a record")
            member.commit()
            [only] = found
            return only

        member.subscribe([others])
        assert polled() == (b"not theirs", 1)
        reader = NsqClient(address(nsq_broker)).subscribe(topic, group, 1)
        NsqClient(address(nsq_broker)).publish(topic, b"job")
        taken = reader.message()
        assert (taken.body, taken.attempts) == (b"job", 1)
        reader.send(b"RDY 0")
        reader.send(b"REQ " + taken.message_id + b" 0")
        member.subscribe([topic])
        assert polled() == (b"job", 2), "taken by an NSQ worker, put back, finished by a share consumer"
        wait_until(lambda: numbers(channel_of(nsq_broker, topic), "depth", "in_flight_count") == [0, 0], "it is done")


def test_a_channel_with_members_is_emptied_and_paused_for_nsq_clients_and_not_deleted(
    nsq_broker: BrokerProcess, topic: str
) -> None:
    group = f"g-{topic}"
    setting = ["--bootstrap", nsq_broker.bootstrap, "--group", group, "share.auto.offset.reset=earliest"]
    assert run_command(["config", "set", *setting]) == 0
    publisher = NsqClient(address(nsq_broker))
    publisher.publish(topic, b"a", b"b")
    of_channel = f"topic={topic}&channel={group}"
    with SyncShareConsumer(nsq_broker.bootstrap, ShareConsumerOptions(group)) as member:
        member.subscribe([topic])
        found: list[bytes | None] = []

        def has_polled(count: int) -> bool:
            found.extend(record.value for record in member.poll(1_000))
            return len(found) >= count

        wait_until(lambda: has_polled(2), "a member has two")
        reader = NsqClient(address(nsq_broker)).subscribe(topic, group, 1)
        assert request(nsq_broker, "POST", f"/channel/delete?{of_channel}") == (409, b'{"message":"NON_EMPTY_GROUP"}')
        assert request(nsq_broker, "POST", f"/channel/pause?{of_channel}")[0] == 200
        publisher.publish(topic, b"c")
        wait_until(lambda: has_polled(3), "members are not paused")
        assert request(nsq_broker, "POST", f"/channel/empty?{of_channel}")[0] == 200
        asked = "depth", "in_flight_count", "client_count"
        assert numbers(channel_of(nsq_broker, topic), *asked) == [0, 0, 1], "nobody was hung up on"
        assert request(nsq_broker, "POST", f"/channel/unpause?{of_channel}")[0] == 200
    wait_until(lambda: request(nsq_broker, "POST", f"/channel/delete?{of_channel}")[0] == 200, "the members are gone")
    with pytest.raises((EOFError, ConnectionError)):
        reader.frame()


def test_a_message_is_a_dead_letter_after_as_many_attempts_as_its_group_allows(
    nsq_broker: BrokerProcess, topic: str
) -> None:
    group, letters = f"g-{topic}", f"dlq.{topic}"
    where = ["--bootstrap", nsq_broker.bootstrap]
    made = [letters, "--config", "errors.deadletterqueue.group.enable=true"]
    assert run_command(["topic", "create", *where, *made]) == 0
    settings = [
        "share.delivery.count.limit=2",
        f"errors.deadletterqueue.topic.name={letters}",
        "errors.deadletterqueue.copy.record.enable=true",
    ]
    assert run_command(["config", "set", *where, "--group", group, *settings]) == 0
    NsqClient(address(nsq_broker)).publish(topic, b"bad")
    reader = NsqClient(address(nsq_broker)).subscribe(topic, group, 1)
    for attempts in (1, 2):
        message = reader.message()
        assert (message.body, message.attempts) == (b"bad", attempts)
        reader.send(b"REQ " + message.message_id + b" 0")
    consumer = Consumer({"bootstrap.servers": nsq_broker.bootstrap, "group.id": "l", "auto.offset.reset": "earliest"})
    consumer.subscribe([letters])
    letter = consumer.poll(60)
    consumer.close()
    assert letter is not None
    assert letter.value() == b"bad"

    def is_done() -> bool:
        found = numbers(channel_of(nsq_broker, topic), "depth", "in_flight_count", "deferred_count")
        return found == [0, 0, 0]

    wait_until(is_done, "it is done")


def test_ping_and_statistics_say_when_nothing_can_be_written(tmp_path: Path) -> None:
    """No file may grow beyond 1 MiB: for the broker that is what a full disk is."""
    inside = ("bash", "-c", 'ulimit -f 1024; exec "$@"', "bash")
    settings = {**LISTENERS, "log.index.size.max.bytes": "4096"}
    with BrokerProcess(tmp_path / "data", settings, inside=inside) as broker:
        assert request(broker, "GET", "/ping") == (200, b"OK")
        told: list[tuple[int, bytes]] = []

        def is_told() -> bool:
            request(broker, "POST", "/pub?topic=t", bytes(900_000))
            told[:] = [request(broker, "GET", path) for path in ("/ping", "/stats", "/stats?format=json")]
            return told[0][0] == 500 and all(b"NOK - " in body for _, body in told)  # it may be tried anew in between

        wait_until(is_told, "the disk is full")
        assert told[0][1] == b"NOK - a data directory cannot be written"
        assert b"\nHealth: NOK - a data directory cannot be written\n" in told[1][1]
        assert json.loads(told[2][1])["health"] == "NOK - a data directory cannot be written"
