"""Who is told of the partitions that this broker leads."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.model.topic_partition import TopicPartition
from ottla.replication.leaderships import Leaderships

LEDGER, OFFSETS = TopicPartition("orders", 3), TopicPartition("__consumer_offsets", 0)


def partition(name: TopicPartition) -> Any:
    return SimpleNamespace(topic_partition=name)


class Listener:
    """Writes down what it hears; `fails` after that."""

    def __init__(self, *, fails: bool = False) -> None:
        self.heard: list[tuple[str, str]] = []
        self._fails = fails

    def elected(self, partition: Any) -> None:
        self._hear("elected", partition)

    def resigned(self, partition: Any) -> None:
        self._hear("resigned", partition)

    def _hear(self, what: str, partition: Any) -> None:
        self.heard.append((what, str(partition.topic_partition)))
        if self._fails:
            raise RuntimeError("broken")


def test_who_registers_for_a_topic_hears_of_it_and_who_registers_for_all_hears_of_all() -> None:
    leaderships, of_offsets, of_all = Leaderships(), Listener(), Listener()
    leaderships.register(of_all)
    leaderships.register(of_offsets, OFFSETS.topic)
    for name in (LEDGER, OFFSETS):
        leaderships.take(partition(name), 7)
    assert of_offsets.heard == [("elected", "__consumer_offsets-0")]
    assert of_all.heard == [("elected", "orders-3"), ("elected", "__consumer_offsets-0")]


def test_a_new_leader_epoch_is_news_the_same_one_is_not() -> None:
    leaderships = Leaderships()
    leaderships.register(Listener())
    leaderships.take(partition(LEDGER), 7)
    assert not leaderships.is_new(LEDGER, 7)
    assert leaderships.is_new(LEDGER, 8)
    leaderships.give_up(partition(LEDGER))
    assert leaderships.is_new(LEDGER, 7)


def test_what_was_not_led_is_not_given_up_and_what_was_is_given_up_once() -> None:
    leaderships, listener = Leaderships(), Listener()
    leaderships.register(listener)
    leaderships.give_up(partition(LEDGER))
    leaderships.take(partition(LEDGER), 7)
    leaderships.give_up(partition(LEDGER))
    leaderships.give_up(partition(LEDGER))
    assert listener.heard == [("elected", "orders-3"), ("resigned", "orders-3")]


def test_a_listener_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    leaderships, failing, other = Leaderships(), Listener(fails=True), Listener()
    leaderships.register(failing)
    leaderships.register(other)
    leaderships.take(partition(LEDGER), 7)
    leaderships.give_up(partition(LEDGER))
    assert other.heard == failing.heard == [("elected", "orders-3"), ("resigned", "orders-3")]
    assert caplog.text.count("orders-3") >= 2
