"""Every API that the broker serves asks whether its client may, or says here why it asks nobody.

Each gets a request that names one of everything, by a client that may do nothing. The rules are those of Kafka 4.3
(`KafkaApis`, `ControllerApis`): which operation on which type of resource.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct

from ottla.broker.access import Operation, ResourceType
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.apis import APIS
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.native import build_batch
from ottla.native.errors import MessageError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import encode_request
from tests.unit.server.socketless_broker import SocketlessBroker, decoded, until

pytestmark = pytest.mark.slow

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
Asked = tuple[Operation, ResourceType]

ASKED: dict[ApiKey, set[Asked]] = {
    ApiKey.PRODUCE: {(Operation.WRITE, TOPIC)},
    ApiKey.FETCH: {(Operation.READ, TOPIC)},
    ApiKey.LIST_OFFSETS: {(Operation.DESCRIBE, TOPIC)},
    ApiKey.METADATA: {(Operation.DESCRIBE, TOPIC)},
    ApiKey.OFFSET_COMMIT: {(Operation.READ, GROUP)},
    ApiKey.OFFSET_FETCH: {(Operation.DESCRIBE, GROUP)},
    ApiKey.FIND_COORDINATOR: {(Operation.DESCRIBE, GROUP)},
    ApiKey.JOIN_GROUP: {(Operation.READ, GROUP)},
    ApiKey.HEARTBEAT: {(Operation.READ, GROUP)},
    ApiKey.LEAVE_GROUP: {(Operation.READ, GROUP)},
    ApiKey.SYNC_GROUP: {(Operation.READ, GROUP)},
    ApiKey.DESCRIBE_GROUPS: {(Operation.DESCRIBE, GROUP)},
    ApiKey.LIST_GROUPS: {(Operation.DESCRIBE, CLUSTER)},
    ApiKey.CREATE_TOPICS: {(Operation.CREATE, CLUSTER), (Operation.CREATE, TOPIC)},
    ApiKey.DELETE_TOPICS: {(Operation.DELETE, TOPIC)},
    ApiKey.DELETE_RECORDS: {(Operation.DELETE, TOPIC)},
    ApiKey.INIT_PRODUCER_ID: {(Operation.WRITE, TOPIC), (Operation.IDEMPOTENT_WRITE, CLUSTER)},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {(Operation.DESCRIBE, TOPIC)},
    ApiKey.ADD_PARTITIONS_TO_TXN: {(Operation.WRITE, TRANSACTIONAL_ID)},
    ApiKey.ADD_OFFSETS_TO_TXN: {(Operation.WRITE, TRANSACTIONAL_ID)},
    ApiKey.END_TXN: {(Operation.WRITE, TRANSACTIONAL_ID)},
    ApiKey.WRITE_TXN_MARKERS: {(Operation.ALTER, CLUSTER)},
    ApiKey.TXN_OFFSET_COMMIT: {(Operation.WRITE, TRANSACTIONAL_ID)},
    ApiKey.DESCRIBE_ACLS: {(Operation.DESCRIBE, CLUSTER)},
    ApiKey.CREATE_ACLS: {(Operation.ALTER, CLUSTER)},
    ApiKey.DELETE_ACLS: {(Operation.ALTER, CLUSTER)},
    ApiKey.DESCRIBE_CONFIGS: {(Operation.DESCRIBE_CONFIGS, TOPIC)},
    ApiKey.ALTER_CONFIGS: {(Operation.ALTER_CONFIGS, TOPIC)},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {(Operation.ALTER, CLUSTER)},
    ApiKey.DESCRIBE_LOG_DIRS: {(Operation.DESCRIBE, CLUSTER)},
    ApiKey.CREATE_PARTITIONS: {(Operation.ALTER, TOPIC)},
    ApiKey.DELETE_GROUPS: {(Operation.DELETE, GROUP)},
    ApiKey.ELECT_LEADERS: {(Operation.ALTER, CLUSTER)},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {(Operation.ALTER_CONFIGS, TOPIC)},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {(Operation.ALTER, CLUSTER)},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {(Operation.DESCRIBE, CLUSTER)},
    ApiKey.OFFSET_DELETE: {(Operation.DELETE, GROUP)},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {(Operation.DESCRIBE_CONFIGS, CLUSTER)},
    ApiKey.ALTER_CLIENT_QUOTAS: {(Operation.ALTER_CONFIGS, CLUSTER)},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {(Operation.DESCRIBE, CLUSTER)},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {(Operation.ALTER, CLUSTER)},
    ApiKey.DESCRIBE_QUORUM: {(Operation.DESCRIBE, CLUSTER)},
    ApiKey.UPDATE_FEATURES: {(Operation.ALTER, CLUSTER)},
    ApiKey.DESCRIBE_PRODUCERS: {(Operation.READ, TOPIC)},
    ApiKey.UNREGISTER_BROKER: {(Operation.ALTER, CLUSTER)},
    ApiKey.DESCRIBE_TRANSACTIONS: {(Operation.DESCRIBE, TRANSACTIONAL_ID)},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {(Operation.READ, GROUP)},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {(Operation.DESCRIBE, GROUP)},
    ApiKey.LIST_CONFIG_RESOURCES: {(Operation.DESCRIBE_CONFIGS, CLUSTER)},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {(Operation.DESCRIBE, TOPIC)},
    ApiKey.SHARE_GROUP_HEARTBEAT: {(Operation.READ, GROUP)},
    ApiKey.SHARE_GROUP_DESCRIBE: {(Operation.DESCRIBE, GROUP)},
    ApiKey.SHARE_FETCH: {(Operation.READ, GROUP)},
    ApiKey.SHARE_ACKNOWLEDGE: {(Operation.READ, GROUP)},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {(Operation.READ, GROUP)},
    ApiKey.STREAMS_GROUP_DESCRIBE: {(Operation.DESCRIBE, GROUP)},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {(Operation.DESCRIBE, GROUP)},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {(Operation.READ, GROUP)},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {(Operation.DELETE, GROUP)},
    ApiKey.DESCRIBE_DELIVERIES: {(Operation.DESCRIBE, GROUP)},
    ApiKey.DESCRIBE_HISTORY: {(Operation.DESCRIBE, GROUP)},
}
"""What each asks first, of a client that may do nothing."""

BROKERS_ONLY = frozenset(
    {
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.REDIS_COMMANDS,
        ApiKey.SHARE_READS,
    }
)
"""Those that brokers send each other: whoever has not proved that it is one is refused, whatever the rules say."""

ASK_NOBODY = {
    ApiKey.SASL_HANDSHAKE: "comes before anybody is known",
    ApiKey.SASL_AUTHENTICATE: "finds out who it is",
    ApiKey.API_VERSIONS: "comes before anybody is known",
    ApiKey.CREATE_DELEGATION_TOKEN: "of who has proved to be somebody: others are refused first",
    ApiKey.RENEW_DELEGATION_TOKEN: "of who has proved to be somebody: others are refused first",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "of who has proved to be somebody: others are refused first",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "of who has proved to be somebody: others are refused first",
    ApiKey.DESCRIBE_CLUSTER: "clients find brokers with it; only what they may do is asked for, if they want it",
    ApiKey.LIST_TRANSACTIONS: "asks for each transaction that is there whether it may be described",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "of the client itself",
    ApiKey.PUSH_TELEMETRY: "of the client itself",
}

MISSING_TOPIC_ID = UUID(int=5)
GIVEN: dict[ApiKey, dict[str, Any]] = {
    ApiKey.PRODUCE: {"transactional_id": None, "records": bytes(build_batch([(0, None, b"x", ())])), "acks": 1},
    ApiKey.FETCH: {"session_epoch": -1, "replica_id": -1, "max_bytes": 100, "partition_max_bytes": 100},
    ApiKey.LIST_OFFSETS: {"replica_id": -1, "timestamp": -1, "current_leader_epoch": -1},
    ApiKey.METADATA: {"topic_id": UUID(int=0)},
    ApiKey.INIT_PRODUCER_ID: {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"replica_id": -1, "current_leader_epoch": -1},
    ApiKey.DELETE_TOPICS: {"topic_id": UUID(int=0)},
    ApiKey.CREATE_TOPICS: {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()},
    ApiKey.DESCRIBE_CONFIGS: {"resource_type": 2},
    ApiKey.ALTER_CONFIGS: {"resource_type": 2},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resource_type": 2},
    ApiKey.CREATE_PARTITIONS: {"assignments": None, "count": 2},
}
"""Fields that a handler would refuse otherwise before it asks, by their names, wherever they stand in the request."""


REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


LIST_NOTHING = {ApiKey.LIST_GROUPS}
"""Those that leave out what their client may not see."""


class Nobody:
    """Says no to everybody, and notes what was asked. Off, it says yes."""

    version = 0
    by_host = False
    is_on = False

    def __init__(self) -> None:
        self.asked: set[Asked] = set()

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        assert resource_name
        self.asked.add((operation, resource_type))
        return not self.is_on

    def allows_on_any(self, principal: Principal, operation: Operation, resource_type: ResourceType) -> bool:
        self.asked.add((operation, resource_type))
        return not self.is_on


def filled(kind: Any, given: dict[str, Any], left_out: set[str], path: str = "") -> Any:
    """One of everything: a message whose lists have one element each, without the fields whose paths are `left_out`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return filled(arguments[0], given, left_out, path)
    if origin is tuple:
        return (filled(arguments[0], given, left_out, f"{path}[0]"),)
    if isinstance(kind, type) and issubclass(kind, Struct):
        fields = {}
        for name, of in typing.get_type_hints(kind).items():
            inner = f"{path}.{name}".lstrip(".")
            if name in kind.__struct_fields__ and inner not in left_out:
                fields[name] = given[name] if name in given else filled(of, given, left_out, inner)
        return kind(**fields)
    return {str: "t", int: 0, bool: False, float: 0.0, UUID: given.get("_id", MISSING_TOPIC_ID)}.get(kind, b"")


def request_of(api: Api, given: dict[str, Any]) -> bytes:
    """The frame of a request in the newest version, with one of everything that this version has."""
    left_out: set[str] = set()
    while True:
        message = filled(api.request_type, given, left_out)
        try:
            return encode_request(7, "test", message, api.max_version)[4:]
        except MessageError as error:
            found = re.search(r": ([^ ]+): the version cannot carry", str(error))
            if found is None:
                raise
            left_out.add(found[1])


async def answer_of(broker: SocketlessBroker, api: Api, given: dict[str, Any]) -> Any:
    """What a client is told, or why its connection was closed."""
    peer = broker.connect()
    slot = peer.send_frame(request_of(api, given))
    await until(lambda: slot.frame is not None or peer.is_closed)
    return peer.closed_because if peer.is_closed else decoded(slot, api.key, api.max_version)


def errors_in(value: Any) -> set[int]:
    """The error codes in a response, wherever they stand."""
    if isinstance(value, tuple):
        return set().union(*map(errors_in, value)) if value else set()
    names = getattr(value, "__struct_fields__", ())
    found = {getattr(value, name) for name in names if name.endswith("error_code")}
    return found.union(*(errors_in(getattr(value, name)) for name in names)) if names else found


@pytest.fixture
async def rules() -> Nobody:
    return Nobody()


@pytest.fixture
async def broker(tmp_path: Path, rules: Nobody) -> AsyncIterator[SocketlessBroker]:
    broker = await SocketlessBroker(tmp_path, authorizer=rules).open()
    await broker.create_topic("t")
    rules.asked.clear()
    rules.is_on = True
    yield broker
    rules.is_on = False
    await broker.close()


def test_each_api_is_in_one_of_the_tables() -> None:
    tables = [set(ASKED), set(BROKERS_ONLY), set(ASK_NOBODY)]
    assert sorted(key for table in tables for key in table) == sorted(ApiKey(key) for key in APIS)


async def test_every_api_asks_first(broker: SocketlessBroker, rules: Nobody) -> None:
    wrong: dict[str, Any] = {}
    for key, expected in ASKED.items():
        rules.asked.clear()
        answer = await answer_of(broker, APIS[key], {"_id": broker.topic_id("t"), **GIVEN.get(key, {})})
        is_refused = key in LIST_NOTHING or errors_in(answer) & REFUSALS
        if not expected <= rules.asked or not is_refused:
            wrong[key.name] = set(rules.asked), answer
    assert wrong == {}


async def test_what_brokers_ask_each_other_is_refused_to_everybody_else(broker: SocketlessBroker) -> None:
    wrong: dict[str, Any] = {}
    for key in sorted(BROKERS_ONLY):
        answer = await answer_of(broker, APIS[key], {})
        if ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in errors_in(answer):
            wrong[key.name] = answer
    assert wrong == {}
