"""Every public call of the client refuses wrong arguments: it names the argument and sends nothing.

The table has an entry for each public method with parameters; a method without one fails the test.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import pytest

from ottla.client import (
    Admin,
    BlockingClient,
    ClientOptions,
    ConfigResource,
    Consumer,
    ConsumerOptions,
    NewTopic,
    Producer,
    ProducerOptions,
    ShareConsumer,
    ShareConsumerOptions,
    SubscriptionPattern,
    SyncConsumer,
    SyncProducer,
    SyncShareConsumer,
)
from ottla.client.errors import InvalidOptionError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.producing.blocking_producer import BlockingProducer
from ottla.client.producing.blocking_transactions import BlockingTransactions
from ottla.model.topic_partition import TopicPartition
from tests.unit.client.scripted_broker import ScriptedBroker

PLACE = TopicPartition("t", 0)
NAMES, NAMELESS, TOO_LARGE = "topics must be a list of names", "a topic must be named by a string, not", 1 << 70
BAD_NAME = "Topic name is invalid: 'a b' contains characters"
PARTITION, PARTITIONS = r"a partition must be a TopicPartition\(topic, number\), not", "must be a list of partitions"
FLAG = "must be True or False, not"


class Wrong(NamedTuple):
    """Arguments of a call, and what its error says."""

    args: tuple[Any, ...]
    says: str
    named: Mapping[str, Any] = MappingProxyType({})


def number(name: str, *, lowest: int = 0) -> list[tuple[object, str]]:
    """What is no number for this argument, with what is said of it."""
    return [
        ("1", f"{name} must be a whole number, not str"),
        (None, f"{name} must be a whole number, not None"),
        (0.5, f"{name} must be a whole number, not float"),
        (True, f"{name} must be a whole number, not bool"),
        (lowest - 1, f"{name} must be at least {lowest}, not {lowest - 1}"),
        (TOO_LARGE, f"{name} must be at most .*, not a larger number"),
    ]


POLL = [
    *(Wrong((given,), says) for given, says in number("max_records")),
    *(Wrong((1, given), says) for given, says in number("timeout_ms")),
]
SHARE_POLL = [
    *(Wrong((given,), says) for given, says in number("max_records", lowest=1) if given is not None),
    *(Wrong((1, given), says) for given, says in number("timeout_ms")),
]
ACKNOWLEDGE = [
    Wrong((None,), "record must be a ShareRecord, or its topic, partition and offset"),
    Wrong((("t", 0),), "record must be a ShareRecord, or its topic, partition and offset"),
    Wrong((("t", "0", 1),), PARTITION),
    Wrong((("t", 0, -1),), "offset must be at least 0, not -1"),
    Wrong((("t", 0, 1), "done"), "kind must be one of accept, release, reject, renew, not 'done'"),
    Wrong((("t", 0, 1),), "this consumer acknowledges implicitly: set acknowledgement_mode='explicit'"),
]
SUBSCRIBE = [
    Wrong(("orders",), NAMES),
    Wrong((b"orders",), NAMES),
    Wrong((None,), NAMES),
    Wrong((["a b"],), BAD_NAME),
    Wrong(([""],), "the empty string is not allowed"),
    Wrong(([None],), f"{NAMELESS} None"),
    Wrong(([b"orders"],), f"{NAMELESS} bytes"),
    Wrong(([],), "topics is empty: name at least one topic"),
]
LIST_OF_PARTITIONS = [
    Wrong((PLACE,), "must be a list of partitions, such as .*, not one"),
    Wrong((None,), PARTITIONS),
    Wrong(("t",), PARTITIONS),
    Wrong((["t"],), PARTITION),
    Wrong(([("t", "0")],), PARTITION),
    Wrong(([("t", -1)],), "the partition number of 't' must be at least 0, not -1"),
    Wrong(([("a b", 0)],), BAD_NAME),
]
ONE_PARTITION = [
    Wrong((None,), PARTITION),
    Wrong(("t",), PARTITION),
    Wrong((("t", None),), PARTITION),
    Wrong((PLACE,), "t-0 is not assigned to this consumer"),
]
SEEK = [
    Wrong((None, 0), PARTITION),
    Wrong(("t", 0), PARTITION),
    Wrong((PLACE, 0), "t-0 is not assigned to this consumer"),
]
POINTS = [
    Wrong((None,), "at must be a mapping of partitions"),
    Wrong(([PLACE],), "at must be a mapping of partitions"),
    Wrong(({"t": 0},), PARTITION),
    *(Wrong(({PLACE: given},), says) for given, says in number("at of t-0", lowest=-6)),
]
COMMIT = [
    Wrong(([PLACE],), "offsets must be a mapping of partitions"),
    Wrong(({"t": 0},), PARTITION),
    *(Wrong(({PLACE: given},), says) for given, says in number("offset(s)? of t-0")),
]
RECORD = [
    Wrong((None, b"v"), "topic must be a string, not NoneType"),
    Wrong(("t", "v"), "value must be bytes or None, not str"),
    Wrong(("t", b"v"), "key must be bytes or None, not int", {"key": 1}),
    Wrong(("t", b"v"), "partition must be a whole number or None, not str", {"partition": "0"}),
    Wrong(("t", b"v"), "timestamp_ms must be a whole number or None, not float", {"timestamp_ms": 0.5}),
    Wrong(("t", b"v"), "timestamp_ms must be at least 0, not -1", {"timestamp_ms": -1}),
    Wrong(("t", b"v"), "timestamp_ms must be at most", {"timestamp_ms": TOO_LARGE}),
    Wrong(("t", b"v"), "headers must be a list of pairs", {"headers": {"a": b"b"}}),
    Wrong(("t", b"v"), "a header must be a pair of name and value", {"headers": ["ab"]}),
    Wrong(("t", b"v"), "the value of header 'a' must be bytes or None", {"headers": [("a", "b")]}),
    Wrong(("t", b"v"), "has characters that UTF-8 cannot encode", {"headers": [("\udc80", b"b")]}),
]
TOPIC = [Wrong((None,), f"{NAMELESS} None"), Wrong((b"t",), f"{NAMELESS} bytes"), Wrong(("a b",), BAD_NAME)]
GROUP = [Wrong((None,), "group_id must be a string, not None"), Wrong(("",), "group_id is empty")]
RESOURCE = [Wrong(("t",), r"resource must be of type ConfigResource, not str: write ConfigResource.topic\('orders'\)")]
ADDRESSES = [
    Wrong((None,), "a broker address must be a string, such as 'localhost:9092', not None"),
    Wrong((9092,), "a broker address must be a string, such as 'localhost:9092', not 9092 of type int"),
    Wrong(("",), "no broker address given: write HOST:PORT"),
    Wrong(([],), "no broker address given: write HOST:PORT"),
    Wrong(([None],), "a broker address must be a string"),
    Wrong((["127.0.0.1:x"],), "the port must be a number from 0 to 65535"),
]
OPTIONS = [
    Wrong((None,), r"options must be of type ClientOptions, not None: write ClientOptions.of\('localhost:9092'\)"),
    Wrong(("localhost:9092",), "options must be of type ClientOptions, not str"),
    Wrong(({"bootstrap": "localhost"},), "options must be of type ClientOptions, not dict"),
]
GOOD = ClientOptions.of("127.0.0.1:1")

TABLE: dict[type, dict[str, list[Wrong]]] = {
    Producer: {
        "__init__": [
            *OPTIONS,
            Wrong((GOOD, {"acks": 1}), r"producer_options must be of type ProducerOptions, not dict: write Producer"),
            Wrong((GOOD,), "on_give_up must be a function, not str", {"on_give_up": "print"}),
        ],
        "send": RECORD,
        "send_and_wait": RECORD,
        "send_encoded": [
            Wrong(("t", 0, b"batch", 1), "batch must be a bytearray, which the producer writes into, not bytes"),
            Wrong((None, 0, bytearray(61), 1), f"{NAMELESS} None"),
            *(Wrong(("t", given, bytearray(61), 1), says) for given, says in number("partition")),
            *(Wrong(("t", 0, bytearray(61), given), says) for given, says in number("record_count", lowest=1)),
        ],
        "partitions": TOPIC,
        "exists": TOPIC,
        "send_offsets_to_transaction": [
            *(Wrong((*each.args, "group"), each.says) for each in COMMIT),
            *(Wrong(({PLACE: 0}, *each.args), each.says) for each in GROUP),
            Wrong(({PLACE: 0}, "group", "me"), "member must be of type Membership, not str: pass Consumer.membership"),
        ],
        "close": [Wrong((), f"deliver {FLAG}", {"deliver": None})],
    },
    SyncProducer: {
        "__init__": [*ADDRESSES, Wrong((GOOD, {"acks": 1}), "options must be of type ProducerOptions, not dict")],
        "send": RECORD,
        "close": [Wrong((), f"deliver {FLAG}", {"deliver": None})],
    },
    Consumer: {
        "__init__": [
            *OPTIONS,
            Wrong((GOOD, {"group_id": "g"}), "consumer_options must be of type ConsumerOptions, not dict"),
        ],
        "assign": LIST_OF_PARTITIONS,
        "subscribe": [
            *SUBSCRIBE,
            *(
                Wrong((["t"],), f"{name} must be a function, not int", {name: 5})
                for name in ("on_assigned", "on_revoked", "on_lost")
            ),
        ],
        "seek": SEEK,
        "seek_to": POINTS,
        "pause": LIST_OF_PARTITIONS,
        "resume": LIST_OF_PARTITIONS,
        "position": ONE_PARTITION,
        "lag": ONE_PARTITION,
        "list_offsets": POINTS,
        "partitions_of": TOPIC,
        "poll_batches": [Wrong((given,), says) for given, says in number("timeout_ms")],
        "poll": POLL,
        "commit": COMMIT,
        "committed": LIST_OF_PARTITIONS,
    },
    SyncConsumer: {
        "__init__": [*ADDRESSES, Wrong((GOOD, {"group_id": "g"}), "must be of type ConsumerOptions, not dict")],
        "assign": LIST_OF_PARTITIONS,
        "subscribe": SUBSCRIBE,
        "seek": SEEK,
        "poll": POLL,
        "commit": COMMIT,
        "committed": LIST_OF_PARTITIONS,
    },
    Admin: {
        "__init__": [Wrong(("localhost:9092",), "cluster must be of type Cluster, not str")],
        "describe_topics": [
            Wrong((None,), "names must be a list of topics"),
            Wrong(("t",), "names must be a list of topics"),
            Wrong((["a b"],), BAD_NAME),
        ],
        "create_topic": [
            Wrong(("t",), r"topic must be of type NewTopic, not str: write NewTopic\('orders'\)"),
            Wrong((NewTopic("t"),), f"validate_only {FLAG}", {"validate_only": "no"}),
        ],
        "delete_topic": TOPIC,
        "create_partitions": [
            *(Wrong((*each.args, 1), each.says) for each in TOPIC),
            *(Wrong(("t", given), says) for given, says in number("count", lowest=1)),
        ],
        "describe_configs": [
            *RESOURCE,
            Wrong((ConfigResource.topic("t"), "retention.ms"), "names must be a list of settings"),
            Wrong((ConfigResource.topic("t"), [5]), "a name of a setting must be a string, not int"),
            Wrong((ConfigResource.topic("t"),), f"with_documentation {FLAG}", {"with_documentation": 1}),
        ],
        "alter_configs": [
            *(Wrong((*each.args, {}), each.says) for each in RESOURCE),
            Wrong((ConfigResource.topic("t"), ["retention.ms"]), "changes must be a mapping of settings and values"),
            Wrong((ConfigResource.topic("t"), {"retention.ms": 5}), "retention.ms must be a string, or None to reset"),
        ],
        "describe_quotas": [
            Wrong((None,), "filters must be a list of filters"),
            Wrong((["user"],), "a filter must be of type QuotaFilter, not str"),
            Wrong(((),), f"strict {FLAG}", {"strict": None}),
        ],
        "alter_quotas": [
            Wrong(
                ("app", {}), r"entity must be pairs of kind and name, such as \(\('client-id', 'app'\),\), not 'app'"
            ),
            Wrong(((("user", "u"),), None), "changes must be a mapping of quotas and rates"),
            Wrong(((("user", "u"),), {"producer_byte_rate": "5"}), "'producer_byte_rate' must be a number, or None"),
        ],
        "update_features": [
            Wrong((None,), "levels must be a mapping of features and levels"),
            Wrong(({5: 1},), "a feature must be a string, not int"),
            *(Wrong(({"share.version": given},), says) for given, says in number("the level of share.version")),
            Wrong(({},), f"validate_only {FLAG}", {"validate_only": 0}),
        ],
        "list_offsets": [*POINTS, Wrong(({PLACE: 0}, 7), "isolation must be one of read_uncommitted, read_committed")],
        "delete_records": [
            Wrong(([PLACE],), "before must be a mapping of partitions"),
            *(Wrong(({PLACE: given},), says) for given, says in number("before of t-0", lowest=-1)),
        ],
    },
    BlockingClient: {
        "__init__": [
            *ADDRESSES,
            Wrong(("127.0.0.1:1",), "unknown client option 'patience'", {"patience": 1}),
            Wrong(("127.0.0.1:1",), "api_timeout_ms must be a whole number, not str", {"api_timeout_ms": "1"}),
        ],
        "metadata": [
            Wrong((None,), "topics must be a list of names"),
            Wrong(("t",), "topics must be a list of names"),
            Wrong((["a b"],), BAD_NAME),
            Wrong((["t"],), f"refresh {FLAG}", {"refresh": None}),
        ],
        "list_offsets": [*POINTS, Wrong(({PLACE: 0},), "isolation must be one of", {"isolation": "dirty"})],
        "fetch_raw": [
            Wrong((None, 0, 0), PARTITION),
            Wrong(("a b", 0, 0), BAD_NAME),
            Wrong(("t", "0", 0), PARTITION),
            *(Wrong(("t", 0, given), says) for given, says in number("offset")),
            *(
                Wrong(("t", 0, 0), says, {name: given})
                for name in ("max_bytes", "max_wait_ms", "min_bytes")
                for given, says in number(name)
            ),
            Wrong(("t", 0, 0), "isolation must be one of", {"isolation": None}),
            Wrong(("t", 0, 0), "rack must be of type str, not None", {"rack": None}),
        ],
        "produce_raw": [
            Wrong((None, 0, b""), PARTITION),
            Wrong(("t", 0, "batches"), "batches must be the bytes of record batches, not str"),
            Wrong(("t", 0, b""), "a blocking produce waits for an answer", {"acks": 0}),
            Wrong(("t", 0, b""), "acks must be one of none, leader, all, not 'most'", {"acks": "most"}),
        ],
        "producer": [
            Wrong((), "transactional_id and identity belong together", {"transactional_id": "id"}),
            Wrong((), "identity must be of type Identity, not int", {"transactional_id": "id", "identity": 5}),
        ],
        "transactions": [
            Wrong((None,), "transactional_id must be a string"),
            Wrong(("",), "transactional_id is empty"),
        ],
        "create_topic": [Wrong(("t",), "topic must be of type NewTopic, not str")],
        "topic_settings": [*TOPIC, Wrong(("t",), f"own {FLAG}", {"own": None})],
        "committed_offsets": [*GROUP, *(Wrong(("g", *each.args), each.says) for each in LIST_OF_PARTITIONS[2:])],
        "commit_offsets": [
            *(Wrong((*each.args, {PLACE: 0}), each.says) for each in GROUP),
            *(Wrong(("g", *each.args), each.says) for each in COMMIT),
        ],
    },
    BlockingProducer: {
        "send": [
            Wrong(("t", bytearray(61)), PARTITION),
            Wrong((PLACE, b"batch"), "batch must be a bytearray, which the producer writes into, not bytes"),
        ],
    },
    BlockingTransactions: {
        "take_over": [Wrong((given,), says) for given, says in number("timeout_ms", lowest=1)],
        "end": [Wrong((5,), "identity must be of type Identity, not int", {"commit": True})],
        "written": [
            *(Wrong((*each.args, 1), each.says) for each in LIST_OF_PARTITIONS),
            *(Wrong(([PLACE], given), says) for given, says in number("producer_id")),
        ],
    },
    ClientOptions: {
        "of": ADDRESSES,
        "__init__": [
            *ADDRESSES,
            Wrong(("a:1",), "client_id must be a string, not int", {"client_id": 5}),
            Wrong(("a:1",), "retry_backoff_ms must be at least 0, not -1", {"retry_backoff_ms": -1}),
            Wrong(("a:1",), "request_timeout_ms must be at least 1, not 0", {"request_timeout_ms": 0}),
        ],
        "within": [Wrong((given,), says) for given, says in number("timeout_ms", lowest=1) if given is not None],
    },
    ProducerOptions: {
        "__init__": [
            Wrong((), "idempotent must be True or False, not 'yes'", {"idempotent": "yes"}),
            Wrong((), "linger_ms must be at least 0, not -1", {"linger_ms": -1}),
            Wrong((), "compression must be one of", {"compression": []}),
            Wrong((), "compression_level must be at most 9, not 99", {"compression": 1, "compression_level": 99}),
            Wrong((), "compression snappy has no levels", {"compression": 2, "compression_level": 1}),
        ],
    },
    ConsumerOptions: {
        "__init__": [
            Wrong((), "auto_commit must be True or False, not 'no'", {"auto_commit": "no"}),
            Wrong((), "fetch_max_wait_ms must be a whole number, not float", {"fetch_max_wait_ms": 0.5}),
            Wrong((), "fetch_max_bytes must be at most", {"fetch_max_bytes": TOO_LARGE}),
            Wrong((), "rack must be a string, not int", {"rack": 5}),
        ],
    },
    NewTopic: {
        "__init__": [
            Wrong((None,), "name must be a string, not None"),
            *(Wrong(("t", given), says) for given, says in number("partitions", lowest=-1)),
            *(Wrong(("t", 1, given), says) for given, says in number("replication_factor", lowest=-1)),
            Wrong(("t",), "the value of retention.ms must be a string, not int", {"configs": {"retention.ms": 5}}),
            Wrong(("t",), "configs must be a mapping of settings and values", {"configs": "a=b"}),
        ],
    },
    ShareConsumer: {
        "__init__": [
            *(Wrong((*each.args, "g"), each.says) for each in OPTIONS),
            Wrong(
                (GOOD, {"group_id": "g"}), "share_options must be of type ShareConsumerOptions, not dict: give the name"
            ),
            Wrong((GOOD, ""), "group_id is empty"),
            Wrong((GOOD, "g"), "on_acknowledged must be a function, not str", {"on_acknowledged": "print"}),
        ],
        "subscribe": SUBSCRIBE,
        "poll": SHARE_POLL,
        "acknowledge": ACKNOWLEDGE,
        "partitions_of": TOPIC,
    },
    SyncShareConsumer: {
        "__init__": [
            *(Wrong((*each.args, "g"), each.says) for each in ADDRESSES),
            Wrong((GOOD, None), "share_options must be of type ShareConsumerOptions, not None"),
        ],
        "subscribe": SUBSCRIBE,
        "poll": SHARE_POLL,
        "acknowledge": ACKNOWLEDGE,
    },
    ShareConsumerOptions: {
        "__init__": [
            Wrong((None,), "group_id must be a string, not None"),
            Wrong(("g",), "acknowledgement_mode must be one of implicit, explicit", {"acknowledgement_mode": "auto"}),
            Wrong(("g",), "acquire_mode must be one of batch_optimized, record_limit", {"acquire_mode": None}),
            Wrong(("g",), "max_poll_records must be at least 1, not 0", {"max_poll_records": 0}),
            Wrong(("g",), "fetch_max_wait_ms must be a whole number, not str", {"fetch_max_wait_ms": "1"}),
        ],
    },
    SubscriptionPattern: {"__init__": [Wrong((None,), "regex must be a string"), Wrong(("",), "regex is empty")]},
}
ROWS = [
    pytest.param(kind, method, wrong, id=f"{kind.__name__}.{method}-{at}")
    for kind, methods in TABLE.items()
    for method, wrongs in methods.items()
    for at, wrong in enumerate(wrongs)
]


@pytest.fixture(scope="module")
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def blocking(broker: ScriptedBroker) -> Iterator[dict[type, Any]]:
    """One instance of each class that connects when it is made, or takes its time to."""
    with (
        SyncProducer(broker.address) as producer,
        SyncConsumer([broker.address], ConsumerOptions(group_id="g")) as consumer,
        SyncShareConsumer(broker.address, "g") as sharing,
        BlockingClient(broker.address) as client,
    ):
        yield {
            SyncProducer: producer,
            SyncConsumer: consumer,
            SyncShareConsumer: sharing,
            BlockingClient: client,
            BlockingProducer: client.producer(),
            BlockingTransactions: client.transactions("id"),
        }


def method_of(kind: type, name: str, broker: ScriptedBroker, blocking: dict[type, Any]) -> Callable[..., Any]:
    if name == "__init__":
        return kind
    options = ClientOptions.of(broker.address)
    instances: dict[type, Callable[[], Any]] = {
        Producer: lambda: Producer(options, ProducerOptions(transactional_id="id")),
        Consumer: lambda: Consumer(options, ConsumerOptions(group_id="g")),
        ShareConsumer: lambda: ShareConsumer(options, "g"),
        Admin: lambda: Admin(Cluster(options, AsyncioIo())),
        ClientOptions: lambda: options,
    }
    instance = blocking[kind] if kind in blocking else instances[kind]()
    return cast("Callable[..., Any]", getattr(instance, name))


@pytest.mark.parametrize(("kind", "name", "wrong"), ROWS)
async def test_a_wrong_argument_is_named_and_nothing_is_sent(
    kind: type, name: str, wrong: Wrong, broker: ScriptedBroker, blocking: dict[type, Any]
) -> None:
    method = method_of(kind, name, broker, blocking)
    before = len(broker.requests)

    async def call() -> None:
        result = method(*wrong.args, **wrong.named)
        if inspect.isawaitable(result):
            await result

    with pytest.raises((InvalidOptionError, TypeError), match=wrong.says):
        await call()
    assert len(broker.requests) == before


def takes_arguments(kind: type, name: str) -> bool:
    method = inspect.getattr_static(kind, name)
    if isinstance(method, property) or not callable(getattr(kind, name)):
        return False
    return bool(set(inspect.signature(getattr(kind, name)).parameters) - {"self"})


@pytest.mark.parametrize("kind", TABLE)
def test_the_table_has_every_public_method_that_takes_arguments(kind: type) -> None:
    public = {name for name in vars(kind) if not name.startswith("_") and takes_arguments(kind, name)}
    assert public == TABLE[kind].keys() - {"__init__"}


@pytest.mark.parametrize(
    "given", ["a:1,b:2", ["a:1", "b:2"], ("a:1,b:2",), [("a", 1), ("b", 2)], ClientOptions.of("a:1,b:2").bootstrap]
)
def test_addresses_may_be_a_string_or_a_list(given: Any) -> None:
    assert [str(each) for each in ClientOptions.of(given).bootstrap] == ["a:1", "b:2"]
    assert ClientOptions(given).bootstrap == ClientOptions.of(given).bootstrap
