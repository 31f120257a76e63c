"""Finding brokers, agreeing on versions, and trying again, on an event loop and blocking alike."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.client.admin.group_admin import GroupAdmin
from ottla.client.admin.log_directories import describe_log_directories
from ottla.client.admin.transaction_admin import TransactionAdmin
from ottla.client.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectionLostError,
    ProtocolViolationError,
    RequestTimedOutError,
    TopicNotFoundError,
    UnsupportedApiError,
)
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.blocking_io import BlockingIo, run_blocking
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.unit.client.scripted_broker import CLOSE, SILENCE, ScriptedBroker, in_turn

Run = Callable[[Callable[[Cluster], Coroutine[Any, Any, Any]]], Any]


def options(bootstrap: str, **settings: int) -> ClientOptions:
    return ClientOptions.of(
        bootstrap, **{"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "api_timeout_ms": 60_000, **settings}
    )


@pytest.fixture(params=["asyncio", "blocking"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs a coroutine function with a new cluster of these options, in one of the two ways of waiting."""

    def run_with(action: Callable[[Cluster], Coroutine[Any, Any, Any]], bootstrap: str, **settings: int) -> Any:
        async def whole() -> Any:
            cluster = Cluster(options(bootstrap, **settings), AsyncioIo() if loop else BlockingIo())
            try:
                return await action(cluster)
            finally:
                cluster.close()

        loop = request.param == "asyncio"
        return asyncio.run(whole()) if loop else run_blocking(whole())

    return run_with


@pytest.fixture
def closed_port() -> Iterator[Callable[[], int]]:
    """Ports that refuse connections, and that nobody else is given meanwhile."""
    with ExitStack() as taken:

        def take() -> int:
            bound = taken.enter_context(socket.socket())
            bound.bind(("127.0.0.1", 0))
            return int(bound.getsockname()[1])

        yield take


async def connect(cluster: Cluster) -> Cluster:
    await cluster.connect()
    return cluster


def test_nobody_listening_is_said_in_one_line_with_what_to_do(run, closed_port):
    port = closed_port()
    with pytest.raises(BrokerUnreachableError) as refused:
        run(connect, f"127.0.0.1:{port}")
    assert str(refused.value) == (
        f"cannot reach a broker at 127.0.0.1:{port}: connection refused; is it running? start one with `ottla serve`"
    )


def test_a_host_that_does_not_exist_is_said_to_be_unknown(run):
    with pytest.raises(BrokerUnreachableError, match="host name is not known"):
        run(connect, "no-such-host.invalid:9092")


def test_the_first_address_that_answers_is_taken(run, closed_port):
    with ScriptedBroker() as broker:
        cluster = run(connect, f"127.0.0.1:{closed_port()},{broker.address}")
    assert cluster.metadata.cluster_id == "scripted"


def test_when_no_address_answers_all_are_named(run, closed_port):
    first, second = closed_port(), closed_port()
    with pytest.raises(BrokerUnreachableError, match=rf":{first}: connection refused.*:{second}: connection refused"):
        run(connect, f"127.0.0.1:{first},127.0.0.1:{second}")


def test_a_peer_that_does_not_speak_the_protocol_is_found_out(run):
    with ScriptedBroker() as broker:
        broker.handlers[ApiVersionsRequest] = lambda request, version: b"HTTP/1.1 400 Bad Request\r\n\r\n"
        with pytest.raises(ProtocolViolationError, match=f"the answer of {broker.address} .*: is it a Kafka listener"):
            run(connect, broker.address)


@pytest.mark.parametrize(
    ("answer", "within_ms", "what"),
    [
        (SILENCE, 20, "did not answer our first request"),
        (CLOSE, 60_000, "closed the connection at our first"),
    ],
)
def test_a_peer_that_does_not_answer_is_not_taken_for_a_broker(run, answer, within_ms, what):
    with ScriptedBroker() as broker:
        broker.handlers[ApiVersionsRequest] = lambda request, version: answer
        with pytest.raises(BrokerUnreachableError, match=rf"{what}.*is this the port of a Kafka-compatible broker"):
            run(connect, broker.address, handshake_timeout_ms=within_ms)


def test_an_answer_larger_than_allowed_ends_the_connection(run):
    with ScriptedBroker({f"topic-{number}": 10 for number in range(100)}) as broker:

        async def action(cluster: Cluster) -> None:
            await cluster.connect()
            await cluster.refresh(None)

        with pytest.raises(ProtocolViolationError, match="the limit is 5000"):
            run(action, broker.address, response_bytes_max=5_000)


ASK_ALL: dict[str, Callable[[Cluster], Coroutine[Any, Any, list[Any]]]] = {
    "groups": lambda cluster: GroupAdmin(cluster).list_groups(),
    "transactions": lambda cluster: TransactionAdmin(cluster).list_transactions(),
}


@pytest.mark.parametrize("what", ASK_ALL)
def test_when_a_broker_is_lost_while_all_are_asked_the_others_are_asked_again(run, closed_port, what):
    port = closed_port()
    with ScriptedBroker() as broker:
        lost = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=port)

        def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
            answer = broker.metadata(request, version)
            is_fenced = len(broker.asked(MetadataRequest)) > 3
            return answer if is_fenced else replace(answer, brokers=(*answer.brokers, lost))

        answered: dict[type[ApiMessage], ApiMessage] = {
            ListGroupsRequest: ListGroupsResponse(groups=(ListedGroup(group_id="g"),)),
            ListTransactionsRequest: ListTransactionsResponse(
                transaction_states=(TransactionState(transactional_id="t", transaction_state="Ongoing"),)
            ),
        }
        broker.handlers |= {kind: lambda request, version: answered[type(request)] for kind in answered}
        broker.handlers[MetadataRequest] = metadata

        async def action(cluster: Cluster) -> list[Any]:
            await cluster.connect()
            return await ASK_ALL[what](cluster)

        assert len(run(action, broker.address, api_timeout_ms=5_000)) == 1


def test_brokers_that_do_not_tell_their_directories_are_among_the_answers(run, closed_port):
    with ScriptedBroker() as broker:
        places = {1: broker.port, 2: closed_port(), 3: closed_port()}

        def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
            nodes = tuple(MetadataResponseBroker(node_id=each, host="127.0.0.1", port=places[each]) for each in (1, 2))
            return replace(broker.metadata(request, version), brokers=nodes)

        broker.handlers[MetadataRequest] = metadata
        broker.handlers[DescribeLogDirsRequest] = lambda request, version: DescribeLogDirsResponse(
            results=(DescribeLogDirsResult(log_dir="/data"),)
        )
        broker.handlers[DescribeClusterRequest] = lambda request, version: DescribeClusterResponse(
            brokers=tuple(
                DescribeClusterBroker(broker_id=each, host="127.0.0.1", port=port, is_fenced=each == 3)
                for each, port in places.items()
            )
        )

        async def action(cluster: Cluster) -> list[Any]:
            await cluster.connect()
            return [(each.broker_id, each.path, each.error) for each in await describe_log_directories(cluster)]

        assert run(action, broker.address) == [
            (1, "/data", ErrorCode.NONE),
            (2, "", ErrorCode.BROKER_NOT_AVAILABLE),
            (3, "", ErrorCode.BROKER_NOT_AVAILABLE),
        ]


def test_an_older_broker_is_asked_again_for_its_versions(run):
    refusal = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=3),))
    with ScriptedBroker() as broker:
        known = broker._answer(ApiVersionsRequest(), 3)

        def old_broker(request: ApiVersionsRequest, version: int) -> Any:
            if version > 3:
                body = refusal.encode(0)
                return (len(body) + 4).to_bytes(4, "big") + bytes(4) + body
            return known

        broker.handlers[ApiVersionsRequest] = old_broker
        run(connect, broker.address)
        asked = broker.asked(ApiVersionsRequest)
    assert len(asked) == 2
    assert asked[1].client_software_name == "ottla"


def test_the_highest_version_the_broker_serves_is_spoken(run):
    with ScriptedBroker({"t": 1}) as broker:
        broker.versions[MetadataRequest.API_KEY] = (0, 9)
        spoken = []

        def handle(request: MetadataRequest, version: int) -> MetadataResponse:
            spoken.append(version)
            return broker.metadata(request)

        broker.handlers[MetadataRequest] = handle
        run(connect, broker.address)
    assert spoken == [9]


def test_an_api_that_the_broker_does_not_serve_is_an_error(run):
    with ScriptedBroker() as broker:
        del broker.versions[DescribeClusterRequest.API_KEY]

        async def action(cluster: Cluster) -> None:
            await cluster.ask_any(DescribeClusterRequest(), DescribeClusterResponse)

        with pytest.raises(UnsupportedApiError, match="no version of DescribeCluster"):
            run(action, broker.address)


def test_a_broker_that_does_not_answer_is_given_up_after_the_request_timeout(run):
    with ScriptedBroker() as broker:
        broker.handlers[MetadataRequest] = lambda request, version: SILENCE
        with pytest.raises(RequestTimedOutError, match="did not answer Metadata within 500 ms"):
            run(connect, broker.address, request_timeout_ms=500)


def test_a_broker_that_closes_the_connection_is_said_to(run):
    with ScriptedBroker() as broker:
        broker.handlers[MetadataRequest] = lambda request, version: CLOSE
        said = "lost with 1 unanswered request: the broker closed .* if its listener asks for a login, set security"
        with pytest.raises(ConnectionLostError, match=said):
            run(connect, broker.address)


def test_an_answer_that_cannot_be_read_ends_the_connection(run):
    with ScriptedBroker() as broker:
        broker.handlers[MetadataRequest] = lambda request, version: b"\0\0\0\x06" + b"\0\0\0\x01" + b"\0\xff"
        with pytest.raises(ProtocolViolationError, match="cannot be read"):
            run(connect, broker.address)


def test_an_answer_to_another_request_ends_the_connection(run):
    with ScriptedBroker() as broker:
        broker.handlers[MetadataRequest] = lambda request, version: b"\0\0\0\x04" + b"\0\0\x07\x07"
        with pytest.raises(ProtocolViolationError, match="answered request 1799"):
            run(connect, broker.address)


def test_a_lost_connection_is_made_again_and_the_request_tried_again(run):
    with ScriptedBroker({"t": 1}) as broker:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            broker.handlers[MetadataRequest] = in_turn(CLOSE, CLOSE, broker.metadata)
            return await cluster.topic("t", cluster.deadline())

        assert run(action, broker.address).name == "t"
        assert broker.connections >= 3


def test_a_retriable_error_is_tried_again_until_it_is_gone(run):
    leaderless = MetadataResponse(topics=(MetadataResponseTopic(error_code=5, name="t"),))
    with ScriptedBroker({"t": 2}) as broker:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            broker.handlers[MetadataRequest] = in_turn(leaderless, leaderless, broker.metadata)
            return await cluster.leader(TopicPartition("t", 1), cluster.deadline())

        assert run(action, broker.address).leader == 1


def test_after_the_time_limit_the_last_error_is_raised(run):
    leaderless = MetadataResponse(topics=(MetadataResponseTopic(error_code=5, name="t"),))
    with ScriptedBroker({"t": 2}) as broker:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            broker.handlers[MetadataRequest] = lambda request, version: leaderless
            return await cluster.topic("t", cluster.deadline(20))

        with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE") as failed:
            run(action, broker.address)
    assert failed.value.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_topic_that_does_not_exist_is_not_waited_for(run):
    with ScriptedBroker({"t": 1}) as broker:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            return await cluster.topic("other", cluster.deadline())

        with pytest.raises(TopicNotFoundError, match="topic 'other' does not exist"):
            run(action, broker.address)
        assert len(broker.asked(MetadataRequest)) == 2


def test_a_topic_that_the_broker_may_create_is_waited_for(run):
    with ScriptedBroker() as broker:

        def appear(request: MetadataRequest, version: int) -> MetadataResponse:
            answer = broker.metadata(request)
            broker.topics["new"] = 3
            return answer

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            broker.handlers[MetadataRequest] = appear
            return await cluster.topic("new", cluster.deadline(), create=True)

        assert len(run(action, broker.address).partitions) == 3
        assert [request.allow_auto_topic_creation for request in broker.asked(MetadataRequest)[-2:]] == [True, True]


def test_a_partition_that_does_not_exist_is_told_from_a_topic_that_does_not(run):
    with ScriptedBroker({"t": 1}) as broker:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            await cluster.leader(TopicPartition("t", 5), cluster.deadline())

        with pytest.raises(TopicNotFoundError, match="partition 5 of topic 't' does not exist"):
            run(action, broker.address)


def test_a_coordinator_is_remembered_until_it_is_contradicted(run):
    with ScriptedBroker() as broker:
        broker.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
            coordinators=(Coordinator(key="g", node_id=1, host="127.0.0.1", port=broker.port),)
        )

        async def action(cluster: Cluster) -> None:
            await cluster.connect()
            assert [await cluster.coordinator("g"), await cluster.coordinator("g")] == [1, 1]
            assert len(broker.asked(FindCoordinatorRequest)) == 1
            cluster.forget_coordinator("g")
            await cluster.coordinator("g")
            assert len(broker.asked(FindCoordinatorRequest)) == 2

        run(action, broker.address)


@contextmanager
def full_backlog() -> Iterator[str]:
    """An address that drops the packets of whoever wants to connect, as a firewall does."""
    with ExitStack() as around:
        listener = around.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1))
        for _ in range(4):
            waiting = around.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_coordinator_that_is_not_there_yet_is_waited_for_by_a_client_that_has_just_begun(run):
    def coordinator(error_code: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(coordinators=(Coordinator(key="g", node_id=1, error_code=error_code),))

    async def ask(cluster: Cluster) -> int:
        return await cluster.retrying(lambda: cluster.coordinator("g"), cluster.deadline())

    with ScriptedBroker() as broker:
        not_yet = coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        broker.handlers[FindCoordinatorRequest] = in_turn(not_yet, not_yet, coordinator(0))
        assert run(ask, broker.address) == 1


def test_brokers_that_all_moved_are_found_by_the_bootstrap_address(run, closed_port):
    with ScriptedBroker({"t": 1}) as old, ScriptedBroker({"t": 1}) as new:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            for broker in list(cluster.metadata.brokers.values()):
                moved = broker.address._replace(port=closed_port())
                cluster.metadata.brokers[broker.node_id] = type(broker)(broker.node_id, moved)
            old.handlers[MetadataRequest] = lambda request, version: CLOSE
            return await cluster.topic("t", cluster.deadline())

        assert run(action, f"{old.address},{new.address}").name == "t"


def test_what_a_closed_client_is_asked_fails(run):
    with ScriptedBroker() as broker:

        async def action(cluster: Cluster) -> Any:
            await cluster.connect()
            cluster.close()
            await cluster.refresh(())

        with pytest.raises(ConnectionLostError):
            run(action, broker.address)


async def test_requests_of_one_connection_are_answered_to_those_who_asked():
    with ScriptedBroker({"a": 1, "b": 2, "c": 3}) as broker:
        cluster = Cluster(options(broker.address, in_flight_requests_max=2), AsyncioIo())
        await cluster.connect()

        async def count(name: str) -> int:
            cluster.metadata.forget_topic(name)
            return len((await cluster.topic(name, cluster.deadline())).partitions)

        assert await asyncio.gather(*(count(name) for name in "abcabc")) == [1, 2, 3, 1, 2, 3]
        assert broker.connections == 1
        cluster.close()


@pytest.mark.parametrize("accepts", [True, False])
def test_an_address_that_is_silent_is_not_waited_for(run, accepts):
    """One that takes connections and does not answer, and one whose packets are dropped."""
    with ScriptedBroker() as frozen, ScriptedBroker() as serving, full_backlog() as dropping:
        frozen.handlers[ApiVersionsRequest] = lambda request, version: SILENCE

        async def action(cluster: Cluster) -> Any:
            return (await cluster.any_connection()).address

        silent = frozen.address if accepts else dropping
        hour = dict.fromkeys(("handshake_timeout_ms", "connect_timeout_ms"), 3_600_000)
        assert str(run(action, f"{silent},{serving.address}", next_address_after_ms=1, **hour)) == serving.address


def test_of_addresses_that_all_fail_each_is_told(run, closed_port):
    async def action(cluster: Cluster) -> Any:
        await cluster.any_connection()

    with ScriptedBroker() as closing:
        closing.handlers[ApiVersionsRequest] = lambda request, version: CLOSE
        addresses = (f"127.0.0.1:{closed_port()}", closing.address)
        with pytest.raises(BrokerUnreachableError) as told:
            run(action, ",".join(addresses))
    assert [each.split(";")[0] for each in str(told.value).split("cannot reach a broker at ")[1:]] == [
        f"{addresses[0]}: connection refused",
        f"{addresses[1]}: it closed the connection at our first request",
    ]


def test_a_broker_that_left_a_request_unanswered_is_asked_last(run):
    """Its other connections are open, but it may stand still: a commit waited for it a second time."""
    coordinators = FindCoordinatorResponse(coordinators=(Coordinator(key="g", node_id=1),))

    def both(request: MetadataRequest, version: int) -> MetadataResponse:
        nodes = tuple(
            MetadataResponseBroker(node_id=each, host="127.0.0.1", port=broker.port)
            for each, broker in enumerate((paused, other), 1)
        )
        return replace(paused.metadata(request), brokers=nodes)

    async def action(cluster: Cluster) -> Any:
        await cluster.connect()
        await cluster.coordinator("g")
        paused.handlers[ListGroupsRequest] = lambda request, version: SILENCE
        with pytest.raises(RequestTimedOutError):
            await cluster.ask_coordinator("g", ListGroupsRequest(), ListGroupsResponse, timeout_ms=1)
        return (await cluster.any_connection()).address

    with ScriptedBroker() as paused, ScriptedBroker() as other:
        paused.handlers[MetadataRequest] = both
        paused.handlers[FindCoordinatorRequest] = lambda request, version: coordinators
        assert str(run(action, paused.address)) == other.address


def test_the_only_broker_is_asked_although_it_left_a_request_unanswered(run):
    async def action(cluster: Cluster) -> Any:
        await cluster.connect()
        with pytest.raises(RequestTimedOutError):
            await cluster.ask_node(1, ListGroupsRequest(), ListGroupsResponse, timeout_ms=1)
        await cluster.refresh(())
        return len(broker.asked(MetadataRequest))

    with ScriptedBroker() as broker:
        broker.handlers[ListGroupsRequest] = lambda request, version: SILENCE
        assert run(action, broker.address) == 2
