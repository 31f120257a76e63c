"""What is sent for a letter is its record as it was; what would go round for ever, or nowhere, stays."""

import re

import pytest

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.headers import Header, Letter, headers_of, letter_of
from ottla.pipelines.dead_letters.redrive import Destination, Refusal, Rules, decide
from ottla.pipelines.dead_letters.summary import GROUPS_MAX, OTHERS, Summary

ORIGIN = Letter("events", 3, 41, 1_000, "flights", "sane", "delay", "9999 is no delay", replays=1)
RULES = Rules("dead")
TOPICS = {"events": 4, "other": 2}


def record(
    letter: Letter = ORIGIN, *, partition: int = 0, offset: int = 0, timestamp_ms: int = 5_000
) -> ConsumerRecord:
    headers: list[Header] = [("trace", b"1"), *headers_of(letter)]
    return ConsumerRecord("dead", partition, offset, timestamp_ms, b"k", b"v", headers)


def test_a_letter_goes_back_as_it_was_to_where_it_was_and_is_counted():
    back: list[Header] = [("trace", b"1"), ("__ottla.errors.replays", b"2")]
    assert decide(record(), ORIGIN, RULES, TOPICS) == Destination("events", 3, b"k", b"v", 1_000, back)


def test_into_another_topic_or_one_with_fewer_partitions_it_goes_by_its_key():
    into = decide(record(), ORIGIN, Rules("dead", into="other"), TOPICS)
    fewer = decide(record(), ORIGIN, RULES, {"events": 3})
    assert isinstance(into, Destination)
    assert isinstance(fewer, Destination)
    assert (into.topic, into.partition, fewer.topic, fewer.partition) == ("other", None, "events", None)


def test_a_letter_that_does_not_say_when_its_record_was_has_the_time_of_its_refusal():
    for unknown in (Letter("events", 0, 1, time, reason="no") for time in (None, -1, (1 << 63) - 1)):
        decided = decide(record(unknown), unknown, RULES, TOPICS)
        assert isinstance(decided, Destination)
        assert decided.timestamp_ms == 5_000


@pytest.mark.parametrize(
    ("letter", "rules", "why", "message"),
    [
        (Letter(reason="no"), RULES, "no origin", "--into"),
        (Letter("dead", 0, 1), RULES, "its own topic", "dead itself"),
        (ORIGIN, Rules("dead", into="dead"), "its own topic", "--into"),
        (Letter("gone", 0, 1), RULES, "no such topic", "gone does not exist"),
        (Letter("__consumer_offsets", 0, 1), RULES, "internal topic", "came from __consumer_offsets"),
        (Letter("__ottla-dlq-redriven", 0, 1), RULES, "internal topic", "came from __ottla-dlq-redriven"),
        (
            Letter("events", 0, 1, cut="it has more than 9 bytes"),
            RULES,
            "cut",
            "than 9 bytes: the record is at events-0@1",
        ),
        (Letter("events", 0, 1, replays=3), RULES, "sent back too often", "sent back 3 times"),
        (Letter("events", 0, 1, replays=1), Rules("dead", max_replays=1), "sent back too often", "sent back once"),
    ],
)
def test_a_letter_that_cannot_go_stays_and_says_why(letter: Letter, rules: Rules, why: str, message: str):
    decided = decide(record(letter), letter, rules, TOPICS)
    assert isinstance(decided, Refusal)
    assert decided.why == why
    assert message in decided.message


@pytest.mark.parametrize(
    ("filter_", "takes"),
    [
        (Filter(), True),
        (Filter(pipeline="flights", step="sane", error_class="delay"), True),
        (Filter(pipeline="flight"), False),
        (Filter(step="other"), False),
        (Filter(error_class="other"), False),
        (Filter(reason=re.compile("no d")), True),
        (Filter(reason=re.compile("^no")), False),
        (Filter(origin_topic="events", origin_partitions=frozenset({3})), True),
        (Filter(origin_topic="other"), False),
        (Filter(origin_topic="events", origin_partitions=frozenset({2})), False),
        (Filter(since_ms=5_000, until_ms=5_001), True),
        (Filter(since_ms=5_001), False),
        (Filter(until_ms=5_000), False),
        (Filter(offsets={0: (7, 8)}), True),
        (Filter(offsets={0: (8, 9)}), False),
        (Filter(offsets={0: (6, 7)}), False),
        (Filter(offsets={1: (7, 8)}), False),
    ],
)
def test_a_filter_takes_what_meets_all_of_it(filter_: Filter, takes: bool):
    assert filter_.takes(record(offset=7), ORIGIN) is takes


def test_a_record_that_is_no_letter_is_never_meant():
    assert not Filter().takes(record(), letter_of([("trace", b"1"), ("__ottla.errors.replays", b"1")]))


def test_letters_are_counted_by_step_and_reason_with_the_first_and_the_last():
    summary = Summary()
    summary.add(record(timestamp_ms=7), ORIGIN, is_done=True)
    summary.add(record(timestamp_ms=5), ORIGIN, is_done=False)
    summary.add(record(), Letter("events", step="named"), is_done=False)
    summary.skip(record())
    first, second = summary.reasons()
    assert (first.step, first.letters, first.left, first.first_ms, first.last_ms) == ("sane", 2, 1, 5, 7)
    assert (second.step, second.letters, second.left) == ("named", 1, 1)
    assert summary.no_letters == {"dead": 1}


def test_more_reasons_than_can_be_shown_are_counted_together():
    summary = Summary()
    for number in range(GROUPS_MAX + 5):
        summary.add(record(), Letter("events", reason=f"value {number}"), is_done=False)
    assert len(summary.reasons()) == GROUPS_MAX + 1
    assert summary.reasons()[0].reason == OTHERS
    assert sum(each.letters for each in summary.reasons()) == GROUPS_MAX + 5
