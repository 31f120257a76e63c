"""Which partitions a subscription has."""

import pytest

from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.options import OptionError, Options
from pyspark_ottla.subscription import SUBSCRIPTION_OPTIONS, Subscribed, subscription_of


def resolve(log, **given: str) -> Subscribed:
    return subscription_of(Options(given, SUBSCRIPTION_OPTIONS)).resolve(log)


def test_subscribe_takes_all_partitions_of_the_topics_named(log):
    log.create("a", 2)
    log.create("b", 1)
    log.create("c", 1)
    found = resolve(log, subscribe="b, a,b")
    assert sorted(map(str, found.partitions)) == ["a-0", "a-1", "b-0"]
    assert found.topic_ids == {"a": log.topic_id("a"), "b": log.topic_id("b")}


def test_a_pattern_matches_whole_names_and_no_internal_topics(log):
    for topic in ("events", "events-old", "my-events", "events_secret"):
        log.create(topic)
    log.internal.add("events_secret")
    assert sorted(map(str, resolve(log, subscribePattern="events.*").partitions)) == ["events-0", "events-old-0"]


def test_assign_takes_the_partitions_named(log):
    log.create("a", 4)
    assert resolve(log, assign='{"a": [3, 1]}').partitions == (TopicPartition("a", 1), TopicPartition("a", 3))


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"subscribe": "a,nope"}, "nope"), ({"assign": '{"a": [0, 7]}'}, "a-7"), ({"assign": '{"nope": [0]}'}, "nope")],
)
def test_what_was_named_and_is_not_there_is_named_in_the_error(log, given, missing):
    log.create("a")
    with pytest.raises(OptionError, match=f"'{missing}' does not exist on the broker"):
        resolve(log, **given).require_all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to read: give option subscribe"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "exclude each other"),
        ({"subscribe": ","}, "write one or more topics"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": '{"a": "0"}'}, r'as in \{"a": \[0, 1\]\}'),
        ({"assign": '{"a": [true]}'}, "write the partitions of 'a'"),
        ({"assign": "{}"}, "option assign: write topics and partitions"),
    ],
)
def test_a_subscription_that_says_nothing_or_too_much_is_refused(given, message):
    with pytest.raises(OptionError, match=message):
        subscription_of(Options(given, SUBSCRIPTION_OPTIONS))
