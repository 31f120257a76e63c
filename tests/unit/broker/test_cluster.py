from types import SimpleNamespace
from typing import Any

from ottla.broker.cluster import ClusterView, Node
from ottla.broker.config import BrokerConfig
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import BrokerRegisteredRecord
from ottla.network.address import Address
from ottla.settings.broker_settings import BrokerSettings

IMAGE, _ = apply_records(
    MetadataImage("c"),
    [BrokerRegisteredRecord(2, 1, None, 9093, "r"), BrokerRegisteredRecord(1, 2, "registered", 9092, None)],
)


def nodes(reached_at, **settings):
    given = BrokerSettings({key.replace("_", "."): value for key, value in settings.items()})
    view = ClusterView(BrokerConfig.from_settings(given), lambda: IMAGE)
    connection: Any = SimpleNamespace(local=reached_at, listener_name="PLAINTEXT")
    return view.nodes(connection)


def test_a_client_is_told_the_address_it_came_by():
    assert nodes(Address("10.0.0.5", 19092)) == (
        Node(1, "10.0.0.5", 19092, None),
        Node(2, "10.0.0.5", 9093, "r"),
    )


def test_two_clients_that_came_by_different_addresses_are_told_each_its_own():
    assert nodes(Address("127.0.0.1", 9092))[0].host == "127.0.0.1"
    assert nodes(Address("::1", 9092))[0].host == "::1"


def test_an_advertised_address_holds_for_all():
    advertised = nodes(Address("127.0.0.1", 9092), advertised_listeners="PLAINTEXT://kafka.example:9")
    assert advertised[0] == Node(1, "kafka.example", 9, None)


def test_another_broker_is_told_as_it_registered():
    assert nodes(Address("127.0.0.1", 1), node_id="2")[0] == Node(1, "registered", 9092, None)


def test_a_broker_whose_metadata_is_too_old_to_name_leaders_leaves_itself_out():
    view = ClusterView(BrokerConfig.from_settings(BrokerSettings({"node.id": "1"})), lambda: IMAGE)
    connection: Any = SimpleNamespace(local=Address("10.0.0.5", 9092), listener_name="PLAINTEXT")
    assert [each.node_id for each in view.nodes_to_ask(connection)] == [1, 2]
    view.departed = frozenset({1})
    assert [each.node_id for each in view.nodes_to_ask(connection)] == [2]
    assert view.node(1, connection) is None
    view.departed = frozenset({2})  # it died a moment ago, and this broker knows of others
    assert [each.node_id for each in view.nodes_to_ask(connection)] == [1, 2]
