"""What a broker with SASL and ACLs answers to a script of requests, for tests that compare two brokers."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from ottla.native import build_batch
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{JAAS} username="admin" password="root" user_admin="root" user_alice="secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "connection.failed.authentication.delay.ms": "0",
    "auto.create.topics.enable": "false",
}
CLOSED = "closed"
PATIENCE_S = 60


class Wire:
    """One connection, on which nothing is negotiated."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> Any:
        """The frame that comes back, or CLOSED."""
        try:
            self._socket.sendall(struct.pack(">i", len(frame)) + frame)
            header = self._exactly(4)
            return self._exactly(struct.unpack(">i", header)[0]) if header else CLOSED
        except ConnectionError:
            return CLOSED

    def ask(self, message: ApiMessage, version: int) -> Any:
        """The answer to a request, or CLOSED."""
        answer = self.send(encode_request(7, "script", message, version)[4:])
        return answer if answer == CLOSED else decode_response(message.API_KEY, version, answer)[1]

    def log_in(self, user: str, password: str) -> None:
        """By PLAIN."""
        assert self.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        assert self.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2).error_code == 0

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            more = self._socket.recv(count - len(got))
            if not more:
                return b""
            got += more
        return got


def plain(value: Any) -> Any:
    """An answer without what differs from broker to broker: times, ids and addresses."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    names = getattr(value, "__struct_fields__", None)
    if names is None:
        return bytes(value) if isinstance(value, memoryview) else value
    return {name: plain(getattr(value, name)) for name in names if name not in _OWN}


_OWN = frozenset(
    {
        "throttle_time_ms",
        "topic_id",
        "cluster_id",
        "controller_id",
        "brokers",
        "node_id",
        "host",
        "port",
        "producer_id",
        "log_append_time_ms",
        "current_leader",
        "node_endpoints",
        "configs",
        "nodes",
    }
)


def states(port: int) -> Iterator[tuple[str, Any]]:
    """What becomes of who does not do what SASL asks for, or not in its order."""
    metadata = (MetadataRequest(topics=()), 12)
    hello = (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    begin = (SaslHandshakeRequest("PLAIN"), 1)
    right = (SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    for name, steps in {
        "metadata first": (metadata,),
        "metadata after versions": (hello, metadata),
        "produce first": ((ProduceRequest(None, 1, 1_000, ()), 9),),
        "a token first": (right,),
        "a mechanism that there is not": ((SaslHandshakeRequest("SCRAM-SHA-512"), 1),),
        "GSSAPI": ((SaslHandshakeRequest("GSSAPI"), 1),),
        "no mechanism": ((SaslHandshakeRequest(""), 1),),
        "another mechanism after one that there is not": ((SaslHandshakeRequest("X"), 1), begin),
        "a wrong password": (begin, (SaslAuthenticateRequest(b"\0alice\0wrong"), 2)),
        "a wrong password, in the first version": (begin, (SaslAuthenticateRequest(b"\0alice\0wrong"), 0)),
        "a right one after a wrong one": (begin, (SaslAuthenticateRequest(b"\0alice\0wrong"), 2), right),
        "a user that there is not": (begin, (SaslAuthenticateRequest(b"\0bob\0secret"), 2)),
        "no user": (begin, (SaslAuthenticateRequest(b"\0\0secret"), 2)),
        "no password": (begin, (SaslAuthenticateRequest(b"\0alice\0"), 2)),
        "another name to act as": (begin, (SaslAuthenticateRequest(b"admin\0alice\0secret"), 2)),
        "its own name to act as": (begin, (SaslAuthenticateRequest(b"alice\0alice\0secret"), 2)),
        "too few parts": (begin, (SaslAuthenticateRequest(b"alice\0secret"), 2)),
        "too many parts": (begin, (SaslAuthenticateRequest(b"\0alice\0secret\0"), 2)),
        "an empty token": (begin, (SaslAuthenticateRequest(b""), 2)),
        "in order": (hello, begin, right, metadata),
        "versions in version 0": ((ApiVersionsRequest(), 0), begin, right),
        "a handshake afterwards": (begin, right, begin),
        "a token afterwards": (begin, right, right),
    }.items():
        with Wire(port) as wire:
            answers = [wire.ask(*step) for step in steps]
        yield name, [_shown(each) for each in answers]


def _shown(answer: Any) -> Any:
    if type(answer).__name__ == "ApiVersionsResponse":
        return answer.error_code
    return plain(answer)


def sizes(port: int) -> Iterator[tuple[str, Any]]:
    """How large a request may be before anybody has logged in; nothing of it follows its length."""
    for size in (-1, 0, 1, 524_289, 2**31 - 1):
        with Wire(port) as wire, closing(wire._socket):
            wire._socket.sendall(struct.pack(">i", size) + b"\0")
            try:
                wire._socket.shutdown(socket.SHUT_WR)
                ended = wire._socket.recv(1) == b""
            except OSError as error:  # who was hung up on before is told by ENOTCONN at shutdown
                if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:
                    raise
                ended = True
            yield f"a frame of {size} bytes", ended


def _creation(resource: int = 2, name: str = "t", pattern: int = 3, principal: str = "User:alice", **other: Any) -> Any:
    fields = {"host": "*", "operation": 3, "permission": 3, **other}
    return AclCreation(resource, name, pattern, principal, fields["host"], fields["operation"], fields["permission"])


def acls(port: int) -> Iterator[tuple[str, Any]]:
    """ACLs that are added, described and removed by who may."""
    with Wire(port) as admin:
        admin.log_in("admin", "root")
        for name, creation in {
            "of a topic": _creation(),
            "of a topic again": _creation(),
            "of another topic": _creation(name="a"),
            "prefixed": _creation(name="or", pattern=4, operation=4),
            "of all": _creation(name="*", operation=8, principal="User:*"),
            "denied": _creation(permission=2, host="1.2.3.4", operation=2),
            "of a group": _creation(3, "g", operation=2),
            "of the cluster": _creation(4, "kafka-cluster", operation=12),
            "of a cluster with another name": _creation(4, "other"),
            "of a transactional id": _creation(5, "x", operation=4),
            "of a token": _creation(6, "x", operation=8),
            "of a user": _creation(7, "User:bob", operation=13),
            "without a name": _creation(name=""),
            "of any type": _creation(1),
            "that matches": _creation(pattern=2),
            "of any pattern": _creation(pattern=1),
            "of any operation": _creation(operation=1),
            "of any permission": _creation(permission=1),
            "of nobody": _creation(principal=""),
            "without a type of principal": _creation(principal="alice"),
            "without a host": _creation(host="", name="nohost"),
            "of another type of principal": _creation(principal="Group:x", name="group"),
            "an operation that the type has not": _creation(operation=12, name="strange"),
        }.items():
            yield f"create {name}", plain(admin.ask(CreateAclsRequest((creation,)), 3))
        yield "create several", plain(admin.ask(CreateAclsRequest((_creation(name="a"), _creation(1), _creation())), 3))
        for name, fields in {
            "all": (1, None, 1, None, None, 1, 1),
            "of topics": (2, None, 1, None, None, 1, 1),
            "literal": (2, "t", 3, None, None, 1, 1),
            "prefixed": (2, "or", 4, None, None, 1, 1),
            "any of a name": (2, "or", 1, None, None, 1, 1),
            "that match": (2, "orders", 2, None, None, 1, 1),
            "that match another": (2, "t", 2, None, None, 1, 1),
            "of the wildcard": (2, "*", 3, None, None, 1, 1),
            "that match the wildcard": (2, "*", 2, None, None, 1, 1),
            "of alice": (1, None, 1, "User:alice", None, 1, 1),
            "of a host": (1, None, 1, None, "1.2.3.4", 1, 1),
            "to read": (1, None, 1, None, None, 3, 1),
            "denied": (1, None, 1, None, None, 1, 2),
            "of nothing": (2, "", 1, None, None, 1, 1),
        }.items():
            answer = plain(admin.ask(DescribeAclsRequest(*fields), 3))
            if answer != CLOSED:
                answer["resources"] = sorted((_in_order(each, "acls") for each in answer["resources"]), key=repr)
            yield f"describe {name}", answer
        for name, filters in {
            "none": ((2, "none", 3, None, None, 1, 1),),
            "literal": ((2, "a", 3, None, None, 1, 1),),
            "that match": ((2, "orders", 2, None, None, 4, 1),),
            "twice": ((3, None, 1, None, None, 1, 1), (3, None, 1, None, None, 1, 1)),
            "the rest but some": ((5, None, 1, None, None, 1, 1), (6, None, 1, None, None, 1, 1)),
        }.items():
            answer = plain(admin.ask(DeleteAclsRequest(tuple(DeleteAclsFilter(*each) for each in filters)), 3))
            answer["filter_results"] = [_in_order(each, "matching_acls") for each in answer["filter_results"]]
            yield f"delete {name}", answer
        admin.ask(DeleteAclsRequest((DeleteAclsFilter(1, None, 1, None, None, 1, 1),)), 3)


def _in_order(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {**value, name: sorted(value[name], key=repr)}


def users(port: int) -> Iterator[tuple[str, Any]]:
    """Credentials of SCRAM."""
    with Wire(port) as admin:
        admin.log_in("admin", "root")

        def alter(*upsertions: Any, deletions: tuple[Any, ...] = ()) -> Any:
            answer = plain(admin.ask(AlterUserScramCredentialsRequest(deletions, upsertions), 0))
            return sorted(answer["results"], key=repr)

        def made(user: str = "u", mechanism: int = 1, iterations: int = 4_096, salt: bytes = b"saltsalt") -> Any:
            return ScramCredentialUpsertion(user, mechanism, iterations, salt, b"s" * (32 if mechanism == 1 else 64))

        yield "set", alter(made())
        yield "set two mechanisms", alter(made("v"), made("v", 2, 8_192))
        yield "few iterations", alter(made(iterations=4_095))
        yield "many iterations", alter(made(iterations=16_385))
        yield "no name", alter(made(""))
        yield "an unknown mechanism", alter(made("w", 3))
        yield "twice", alter(made("x"), made("x"))
        yield "set and removed", alter(made("y"), deletions=(ScramCredentialDeletion("y", 1),))
        yield "removed that is not there", alter(deletions=(ScramCredentialDeletion("nobody", 1),))
        yield "removed of an unknown mechanism", alter(deletions=(ScramCredentialDeletion("u", 3),))

        def described(*names: str) -> Any:
            wanted = tuple(map(UserName, names)) if names else None
            answer = plain(admin.ask(DescribeUserScramCredentialsRequest(wanted), 0))
            return {**answer, "results": sorted(answer["results"], key=repr)}

        yield "described", described()
        yield "described by name", described("v")
        yield "described that is not there", described("nobody", "u")
        yield "described twice", described("u", "u")
        yield "removed", alter(deletions=(ScramCredentialDeletion("u", 1), ScramCredentialDeletion("v", 2)))
        yield "described afterwards", described()
        for mechanism in (1, 2):
            alter(deletions=(ScramCredentialDeletion("v", mechanism),))


def denials(port: int) -> Iterator[tuple[str, Any]]:
    """What alice is answered without ACLs, and with some."""
    with Wire(port) as admin, Wire(port) as alice:
        admin.log_in("admin", "root")
        alice.log_in("alice", "secret")
        topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "orders"))
        assert admin.ask(CreateTopicsRequest(topics, 10_000), 7) != CLOSED
        _until(lambda: admin.ask(InitProducerIdRequest(None, 1_000), 4).error_code)
        _until(lambda: admin.ask(FindCoordinatorRequest(key="g"), 2).error_code)
        _until(lambda: admin.ask(DescribeGroupsRequest(("g",)), 5).groups[0].error_code)
        batch = bytes(build_batch([(0, None, b"x", ())]))

        def produce(topic: str) -> ProduceRequest:
            return ProduceRequest(
                None, 1, 5_000, (TopicProduceData(name=topic, partition_data=(PartitionProduceData(0, batch),)),)
            )

        def named(*names: str, may_create: bool = False) -> MetadataRequest:
            return MetadataRequest(
                tuple(MetadataRequestTopic(name=each) for each in names),
                may_create,
                include_topic_authorized_operations=True,
            )

        asked: dict[str, tuple[ApiMessage, int]] = {
            "metadata of all": (MetadataRequest(topics=None, include_topic_authorized_operations=True), 12),
            "metadata by name": (named("t", "nope"), 12),
            "produce": (produce("t"), 9),
            "produce to what is not there": (produce("nope"), 9),
            "create a topic": (CreateTopicsRequest((CreatableTopic("new", 1, 1),), 5_000), 7),
            "delete a topic": (
                DeleteTopicsRequest((DeleteTopicState("orders"), DeleteTopicState("nope")), timeout_ms=10_000),
                6,
            ),
            "find a coordinator": (FindCoordinatorRequest(key="g"), 2),
            "describe a group": (DescribeGroupsRequest(("g",), include_authorized_operations=True), 5),
            "list groups": (ListGroupsRequest(), 4),
            "delete a group": (DeleteGroupsRequest(("g",)), 2),
            "a producer id": (InitProducerIdRequest(None, 1_000), 4),
            "the cluster": (DescribeClusterRequest(include_cluster_authorized_operations=True), 1),
            "configs": (DescribeConfigsRequest((DescribeConfigsResource(2, "t", ("retention.ms",)),)), 4),
            "acls": (DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3),
            "an acl": (CreateAclsRequest((_creation(),)), 3),
            "no acls": (DeleteAclsRequest((DeleteAclsFilter(1, None, 1, None, None, 1, 1),)), 3),
            "users": (DescribeUserScramCredentialsRequest(()), 0),
            "a user": (AlterUserScramCredentialsRequest((ScramCredentialDeletion("u", 1),), ()), 0),
        }

        def ask_all(when: str) -> Iterator[tuple[str, Any]]:
            for name, step in asked.items():
                yield f"{name}, {when}", _without_words(plain(alice.ask(*step)))

        yield from ask_all("without ACLs")
        for name, creations in {
            "who may read t": (_creation(),),
            "who may write t": (_creation(operation=4),),
            "who may do all to t but write": (_creation(operation=2), _creation(operation=4, permission=2)),
            "who may describe all": (_creation(name="*", operation=8), _creation(3, "*", operation=8)),
            "who may write what begins with t": (_creation(name="t", pattern=4, operation=4),),
            "who may describe the cluster": (_creation(4, "kafka-cluster", operation=8),),
            "who is denied elsewhere": (_creation(), _creation(operation=2, permission=2, host="1.2.3.4")),
        }.items():
            assert admin.ask(CreateAclsRequest(creations), 3) != CLOSED
            _wait_for(admin, alice, name)
            yield from ask_all(name)
            admin.ask(DeleteAclsRequest((DeleteAclsFilter(1, None, 1, None, None, 1, 1),)), 3)
            _wait_for(admin, alice, name)


def _until(failing: Callable[[], int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while failing():
        assert time.monotonic() < deadline


def _without_words(answer: Any) -> Any:
    """The messages of refusals are everybody's own."""
    if isinstance(answer, tuple):
        return tuple(map(_without_words, answer))
    if not isinstance(answer, dict):
        return answer
    if "responses" in answer:
        answer = {**answer, "responses": tuple(sorted(answer["responses"], key=lambda each: str(each["name"])))}
    if "topics" in answer and isinstance(answer["topics"], tuple):
        shown = [each for each in answer["topics"] if not each.get("is_internal")]
        answer = {**answer, "topics": tuple(sorted(shown, key=lambda each: each["name"]))}
    return {key: _without_words(value) for key, value in answer.items() if key != "error_message"}


def _wait_for(admin: Wire, alice: Wire, name: str) -> None:
    """Kafka's broker hears of a change a moment after its controller: before the next topic is there."""
    del alice, name
    admin.ask(CreateTopicsRequest((CreatableTopic("settled", 1, 1),), 10_000), 7)
    admin.ask(DeleteTopicsRequest((DeleteTopicState("settled"),), timeout_ms=10_000), 6)


PARTS: dict[str, Callable[[int], Iterator[tuple[str, Any]]]] = {
    "states": states,
    "sizes": sizes,
    "acls": acls,
    "users": users,
    "denials": denials,
}
