"""Who is looked up for a topic."""

from ottla.gateways.nsq.lookup.registry import INACTIVE_MS, TOMBSTONE_MS, LookupRegistry, Producer, ProducerInfo


def producer(host: str, heard_ms: int = 0) -> Producer:
    return Producer(ProducerInfo(host, host, 4150, 4151, "1.3.0", f"{host}:50000"), heard_ms)


def hosts(registry: LookupRegistry, topic: str, now_ms: int = 0) -> list[str]:
    return [each.broadcast_address for each in registry.lookup(topic, now_ms)]


def test_a_topic_is_looked_up_at_those_who_registered_it_while_they_are_connected() -> None:
    registry = LookupRegistry()
    a, b = producer("a"), producer("b")
    for each in (a, b):
        registry.add(each)
    registry.register(a, "clicks", "archive")
    registry.register(b, "clicks")
    assert (hosts(registry, "clicks"), registry.channels("clicks")) == (["a", "b"], ["archive"])
    registry.unregister(b, "clicks")
    registry.unregister(a, "clicks", "archive")
    assert (hosts(registry, "clicks"), registry.channels("clicks")) == (["a"], ["archive"]), "it stays known"
    registry.remove(a)
    assert (hosts(registry, "clicks"), registry.topics()) == ([], ["clicks"])


def test_one_that_is_silent_is_not_looked_up() -> None:
    registry = LookupRegistry()
    a = producer("a")
    registry.add(a)
    registry.register(a, "clicks")
    assert hosts(registry, "clicks", INACTIVE_MS) == ["a"]
    assert hosts(registry, "clicks", INACTIVE_MS + 1) == []
    a.heard_ms = INACTIVE_MS
    assert hosts(registry, "clicks", INACTIVE_MS + 1) == ["a"]


def test_a_tombstone_hides_a_topic_of_one_producer_for_a_while() -> None:
    registry = LookupRegistry()
    a, b = producer("a"), producer("b")
    for each in (a, b):
        registry.add(each)
        registry.register(each, "clicks")
    registry.tombstone("clicks", "a:4151", 0)
    assert hosts(registry, "clicks", TOMBSTONE_MS - 1) == ["b"]
    assert hosts(registry, "clicks", TOMBSTONE_MS) == ["a", "b"]


def test_ephemeral_topics_and_channels_go_with_the_last_producer() -> None:
    registry = LookupRegistry()
    a, b = producer("a"), producer("b")
    for each in (a, b):
        registry.add(each)
        registry.register(each, "t#ephemeral", "c#ephemeral")
        registry.register(each, "t", "c#ephemeral")
    registry.remove(a)
    assert registry.topics() == ["t", "t#ephemeral"]
    registry.remove(b)
    assert (registry.topics(), registry.channels("t")) == (["t"], [])


def test_what_is_deleted_is_known_no_more_and_what_is_created_has_no_producers() -> None:
    registry = LookupRegistry()
    a = producer("a")
    registry.add(a)
    registry.register(a, "t", "c")
    assert registry.delete("t", "nope") is False
    assert registry.delete("t", "c") is True
    assert (registry.channels("t"), hosts(registry, "t")) == ([], ["a"])
    assert registry.delete("t") is True
    assert (registry.is_known("t"), hosts(registry, "t")) == (False, [])
    registry.create("u", "c")
    assert (registry.topics(), registry.channels("u"), hosts(registry, "u")) == (["u"], ["c"], [])
