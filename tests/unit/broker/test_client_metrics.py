"""Which clients are asked for which metrics, and which pushes are taken (KIP-714, as Kafka's ClientMetricsManager)."""

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from ottla.broker.client_metrics import (
    FORGET_MS_MIN,
    INSTANCES_MAX,
    INTERVAL_MS_DEFAULT,
    AskedFor,
    ClientAttributes,
    ClientMetricsService,
    Push,
    kafka_id,
)
from ottla.metadata.image.image import ConfigResource, ConfigResourceType, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.clock import ManualClock
from ottla.runtime.rng import SeededRng

NEW = UUID(int=0)
ETL = ClientAttributes("etl-1", "apache-kafka-java", "4.3.0", "10.0.0.7", 4711)
BILLING = ETL._replace(client_id="billing")
BYTES_MAX = 1_000


class Broker:
    """The service, with what it received."""

    def __init__(self, **subscriptions: dict[str, str]) -> None:
        self.image = MetadataImage("c")
        self.clock = ManualClock()
        self.received: list[Push] = []
        self.is_full = False
        self.service = ClientMetricsService(lambda: self.image, self.clock, SeededRng(7), self, BYTES_MAX)
        self.subscribe(**subscriptions)

    def subscribe(self, **subscriptions: dict[str, str]) -> None:
        configs = {
            ConfigResource(ConfigResourceType.CLIENT_METRICS, name): each for name, each in subscriptions.items()
        }
        self.image = replace(self.image, configs=configs)

    def receive(self, push: Push) -> None:
        if self.is_full:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "full")
        self.received.append(push)

    def ask(self, client: ClientAttributes = ETL, instance: UUID = NEW) -> tuple[UUID, AskedFor]:
        return self.service.ask(instance, client)

    def push(self, instance: UUID, subscription_id: int, metrics: bytes = b"m", **more: Any) -> None:
        push = Push(instance, ETL, more.get("compression_type", 0), metrics, more.get("is_last", False))
        self.service.push(push, subscription_id)


ALL = {"metrics": "*", "interval.ms": "1000"}


def refused(code: ErrorCode) -> Any:
    return pytest.raises(ApiError, check=lambda error: error.code == code)


def test_a_client_that_nothing_matches_is_asked_for_nothing_and_comes_again_in_five_minutes():
    broker = Broker(etl={**ALL, "match": "client_id=billing"})
    instance, asked_for = broker.ask()
    assert instance.version == 4
    assert (asked_for.metrics, asked_for.interval_ms) == ((), INTERVAL_MS_DEFAULT)


@pytest.mark.parametrize(
    ("match", "does"),
    [
        ("", True),
        ("client_id=etl-.*", True),
        ("client_id=etl", False),
        ("client_software_name=apache-kafka-java,client_software_version=4[.].*", True),
        ("client_software_name=apache-kafka-java,client_software_version=3[.].*", False),
        ("client_source_address=10[.].*,client_source_port=4711", True),
        ("client_source_port=47", False),
        ("client_id=(?!billing).*", True),
        ("client_id=(?!etl).*", False),
    ],
)
def test_a_subscription_is_for_clients_that_match_all_of_its_patterns_whole(match, does):
    broker = Broker(s={**ALL, "match": match})
    assert broker.ask()[1].metrics == (("*",) if does else ())


def test_a_client_may_be_matched_by_the_id_it_was_given():
    instance = UUID(int=77)
    broker = Broker(s={**ALL, "match": f"client_instance_id={kafka_id(instance)}"})
    assert broker.ask(instance=instance)[1].metrics == ("*",)
    assert broker.ask()[1].metrics == ()


def test_several_subscriptions_add_up_to_all_their_metrics_in_the_shortest_interval():
    broker = Broker(
        a={"metrics": "org.a,org.b", "interval.ms": "5000"},
        b={"metrics": "org.b,org.c", "interval.ms": "4000"},
        c={"metrics": "*", "interval.ms": "100", "match": "client_id=billing"},
    )
    asked_for = broker.ask()[1]
    assert (asked_for.metrics, asked_for.interval_ms) == (("org.a", "org.b", "org.c"), 4_000)
    asked_for = broker.ask(BILLING)[1]
    assert (asked_for.metrics, asked_for.interval_ms) == (("*",), 100)


def test_the_id_of_a_subscription_is_the_clients_own_and_changes_with_what_is_asked_for():
    broker = Broker(s=ALL)
    first, asked_for = broker.ask()
    assert broker.ask()[1].subscription_id != asked_for.subscription_id
    broker.subscribe(s={**ALL, "interval.ms": "2000"})
    assert broker.ask(instance=first)[1].subscription_id != asked_for.subscription_id
    broker.subscribe(s=ALL)
    assert broker.ask(instance=first)[1].subscription_id == asked_for.subscription_id
    assert Broker(s=ALL).ask(instance=first)[1].subscription_id == asked_for.subscription_id


def test_a_client_that_asks_before_its_interval_is_over_is_throttled_unless_the_subscriptions_have_changed():
    broker = Broker(s=ALL)
    instance, _ = broker.ask()
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        broker.ask(instance=instance)
    broker.subscribe(s=ALL, t={"metrics": "org.a"})
    broker.ask(instance=instance)
    broker.clock.advance(999)
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        broker.ask(instance=instance)
    broker.clock.advance(1)
    broker.ask(instance=instance)


def test_the_first_push_after_asking_may_come_at_any_time_and_the_others_when_the_interval_is_over():
    broker = Broker(s=ALL)
    instance, asked_for = broker.ask()
    broker.clock.advance(10)
    broker.push(instance, asked_for.subscription_id, b"1")
    broker.clock.advance(999)
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        broker.push(instance, asked_for.subscription_id, b"2")
    broker.clock.advance(1)
    broker.push(instance, asked_for.subscription_id, b"3")
    assert [push.metrics for push in broker.received] == [b"1", b"3"]


def test_another_broker_than_the_one_that_was_asked_takes_a_push():
    instance, asked_for = Broker(s=ALL).ask()
    other = Broker(s=ALL)
    other.push(instance, asked_for.subscription_id)
    assert len(other.received) == 1


def test_a_push_for_subscriptions_that_have_changed_is_refused():
    broker = Broker(s=ALL)
    instance, asked_for = broker.ask()
    broker.subscribe(s={"metrics": "org.a"})
    with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
        broker.push(instance, asked_for.subscription_id)
    assert broker.received == []


def test_the_last_push_may_come_early_and_nothing_comes_after_it():
    broker = Broker(s=ALL)
    instance, asked_for = broker.ask()
    broker.push(instance, asked_for.subscription_id)
    broker.push(instance, asked_for.subscription_id, is_last=True)
    broker.clock.advance(5_000)
    with refused(ErrorCode.INVALID_REQUEST):
        broker.push(instance, asked_for.subscription_id)
    assert [push.is_last for push in broker.received] == [False, True]


@pytest.mark.parametrize("instance", [UUID(int=0), UUID(int=1)])
def test_a_push_needs_an_id(instance):
    with refused(ErrorCode.INVALID_REQUEST):
        Broker(s=ALL).push(instance, 0)


@pytest.mark.parametrize("compression_type", [-1, 5, 127])
def test_a_compression_that_there_is_not_is_refused(compression_type):
    broker = Broker(s=ALL)
    instance, asked_for = broker.ask()
    with refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        broker.push(instance, asked_for.subscription_id, compression_type=compression_type)


def test_a_push_that_is_too_large_is_refused_and_an_empty_one_says_nothing():
    broker = Broker(s=ALL)
    instance, asked_for = broker.ask()
    with refused(ErrorCode.TELEMETRY_TOO_LARGE):
        broker.push(instance, asked_for.subscription_id, bytes(BYTES_MAX + 1))
    broker.clock.advance(1_000)
    broker.push(instance, asked_for.subscription_id, bytes(BYTES_MAX))
    broker.clock.advance(1_000)
    broker.push(instance, asked_for.subscription_id, b"")
    assert [len(push.metrics) for push in broker.received] == [BYTES_MAX]


def test_a_client_whose_push_finds_no_room_is_told_to_come_again():
    broker = Broker(s=ALL)
    instance, asked_for = broker.ask()
    broker.is_full = True
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        broker.push(instance, asked_for.subscription_id)


def test_who_has_left_or_was_silent_begins_anew():
    broker = Broker(s=ALL)
    instance, _ = broker.ask()
    broker.service.forget(instance)
    broker.service.forget(instance)
    broker.ask(instance=instance)
    broker.clock.advance(FORGET_MS_MIN + 1)
    broker.ask(BILLING)
    assert len(broker.service) == 1


def test_no_more_client_instances_are_known_than_there_is_room_for():
    broker = Broker(s=ALL)
    first, _ = broker.ask()
    second, _ = broker.ask()
    for number in range(2, INSTANCES_MAX + 1):
        broker.ask(instance=UUID(int=number))
    assert len(broker.service) == INSTANCES_MAX
    broker.ask(instance=first)  # forgotten, so it may ask at once
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        broker.ask(instance=UUID(int=INSTANCES_MAX))
    assert second != first
