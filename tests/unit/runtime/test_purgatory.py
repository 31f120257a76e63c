"""Delayed operations complete once, by key or by time, and leave nothing behind."""

from collections.abc import Hashable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.runtime.purgatory import DelayedOperation, Purgatory
from ottla.runtime.timer import ManualTimer


class WaitFor(DelayedOperation):
    """Completes when every condition it waits for is in `facts`."""

    def __init__(self, facts: set[str], *conditions: str) -> None:
        super().__init__()
        self.facts = facts
        self.conditions = conditions
        self.completions = 0
        self.expirations = 0

    def try_complete(self) -> bool:
        return self.facts.issuperset(self.conditions) and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def purgatory(timer: ManualTimer) -> Purgatory:
    return Purgatory(timer)


def test_an_operation_whose_condition_holds_completes_at_once_and_is_not_held(purgatory: Purgatory, timer: ManualTimer):
    operation = WaitFor({"a"}, "a")
    assert purgatory.try_complete_else_watch(operation, ["a"], 1_000)
    assert (operation.completions, purgatory.delayed_count, len(timer)) == (1, 0, 0)


def test_a_change_of_a_watched_key_completes_it_before_its_time(purgatory: Purgatory, timer: ManualTimer):
    facts: set[str] = set()
    operation = WaitFor(facts, "a")
    assert not purgatory.try_complete_else_watch(operation, ["a"], 1_000)
    assert purgatory.check_and_complete("a") == 0
    facts.add("a")
    assert purgatory.check_and_complete("a") == 1
    timer.advance(10_000)
    assert (operation.completions, operation.expirations) == (1, 0)


def test_an_operation_that_watches_many_keys_is_gone_from_all_of_them_at_once(purgatory: Purgatory, timer: ManualTimer):
    facts: set[str] = set()
    purgatory.try_complete_else_watch(WaitFor(facts, "a"), ["a", "b", "c", "a"], 1_000)
    assert purgatory.watched_count == 3
    facts.add("a")
    purgatory.check_and_complete("b")
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_when_the_time_is_up_it_completes_with_what_there_is(purgatory: Purgatory, timer: ManualTimer):
    operation = WaitFor(set(), "a")
    purgatory.try_complete_else_watch(operation, ["a"], 500)
    timer.advance(499)
    assert operation.completions == 0
    timer.advance(1)
    assert (operation.completions, operation.expirations, purgatory.watched_count) == (1, 1, 0)


def test_without_time_to_wait_it_expires_at_once(purgatory: Purgatory):
    operation = WaitFor(set(), "a")
    assert purgatory.try_complete_else_watch(operation, ["a"], 0)
    assert (operation.completions, operation.expirations) == (1, 1)


def test_only_one_of_two_who_complete_it_wins(purgatory: Purgatory):
    operation = WaitFor(set(), "a")
    purgatory.try_complete_else_watch(operation, ["a"], 500)
    assert operation.force_complete()
    assert not operation.force_complete()
    assert operation.completions == 1


def test_an_operation_may_watch_the_same_key_again_from_within_a_completion(purgatory: Purgatory):
    facts: set[str] = {"a"}

    class Repeating(WaitFor):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.try_complete_else_watch(WaitFor(set(), "never"), ["a"], 1_000)

    facts.clear()
    purgatory.try_complete_else_watch(Repeating(facts, "a"), ["a"], 1_000)
    facts.add("a")
    assert purgatory.check_and_complete("a") == 1
    assert purgatory.delayed_count == 1


def test_one_that_completes_another_watcher_does_not_complete_it_twice(purgatory: Purgatory):
    facts: set[str] = set()
    second = WaitFor(facts, "a")

    class First(WaitFor):
        def on_complete(self) -> None:
            second.force_complete()

    purgatory.try_complete_else_watch(First(facts, "a"), ["a"], 1_000)
    purgatory.try_complete_else_watch(second, ["a"], 1_000)
    facts.add("a")
    purgatory.check_and_complete("a")
    assert second.completions == 1


def test_a_failing_operation_does_not_harm_the_others(purgatory: Purgatory, caplog: pytest.LogCaptureFixture):
    facts: set[str] = set()

    class Failing(WaitFor):
        def try_complete(self) -> bool:
            if self.facts:
                raise RuntimeError("broken operation")
            return False

    good = WaitFor(facts, "a")
    purgatory.try_complete_else_watch(Failing(facts, "a"), ["a"], 1_000)
    purgatory.try_complete_else_watch(good, ["a"], 1_000)
    facts.add("a")
    assert purgatory.check_and_complete("a") == 1
    assert good.completions == 1
    assert "broken operation" in caplog.text


def test_an_operation_is_told_which_of_its_keys_changed(purgatory: Purgatory):
    class Listening(WaitFor):
        def on_change(self, key: Hashable) -> bool:
            self.facts.add(f"told {key}")
            return self.try_complete()

    operation = Listening(set(), "told b")
    purgatory.watch(operation, ["a", "b", "c"], 1_000)
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("b") == 1
    assert operation.facts == {"told c", "told b"}


def test_close_completes_everybody_also_who_watches_nothing(purgatory: Purgatory, timer: ManualTimer):
    operations = [WaitFor(set(), "x") for _ in range(3)]
    keys: list[Iterable[str]] = [["a"], ["a", "b"], []]
    for operation, watched in zip(operations, keys, strict=True):
        purgatory.try_complete_else_watch(operation, watched, 1_000)
    purgatory.close()
    assert [operation.completions for operation in operations] == [1, 1, 1]
    assert (purgatory.delayed_count, len(timer)) == (0, 0)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("watch"), st.sets(st.sampled_from("abc")), st.integers(min_value=-1, max_value=30)),
            st.tuples(st.just("fact"), st.sampled_from("abc"), st.just(0)),
            st.tuples(st.just("pass"), st.just(""), st.integers(min_value=0, max_value=20)),
        ),
        max_size=40,
    )
)
def test_every_operation_completes_exactly_once_and_nothing_is_left(steps: list[tuple[str, Iterable[str], int]]):
    timer = ManualTimer()
    purgatory = Purgatory(timer)
    facts: set[str] = set()
    operations: list[WaitFor] = []
    for action, argument, number in steps:
        if action == "watch":
            operation = WaitFor(facts, *argument)
            operations.append(operation)
            purgatory.try_complete_else_watch(operation, argument, number)
        elif action == "fact":
            facts.update(argument)
            purgatory.check_and_complete(next(iter(argument)))
        else:
            timer.advance(number)
        waiting = sum(not operation.is_completed for operation in operations)
        assert purgatory.delayed_count == len(timer) == waiting
    timer.advance(100)
    assert all(operation.completions == 1 for operation in operations)
    assert purgatory.watched_count == 0


def test_an_operation_that_nobody_wants_any_more_is_gone_without_completing(purgatory: Purgatory, timer: ManualTimer):
    facts: set[str] = set()
    operation = WaitFor(facts, "a")
    purgatory.try_complete_else_watch(operation, ["a", "b"], 2**31)
    operation.cancel()
    facts.add("a")
    assert purgatory.check_and_complete("a") == 0
    timer.advance(2**31)
    assert (operation.completions, operation.expirations, len(timer)) == (0, 0, 0)
    assert (purgatory.delayed_count, purgatory.watched_count) == (0, 0)


def test_an_operation_that_is_done_cannot_be_cancelled(purgatory: Purgatory, timer: ManualTimer):
    operation = WaitFor({"a"}, "a")
    purgatory.try_complete_else_watch(operation, ["a"], 1_000)
    operation.cancel()
    assert (operation.completions, purgatory.watched_count) == (1, 0)


def test_what_there_is_no_room_for_expires_at_once(timer: ManualTimer):
    purgatory = Purgatory(timer, watches_max=3)
    first, second, third = WaitFor(set(), "a"), WaitFor(set(), "b"), WaitFor(set(), "c")
    assert not purgatory.try_complete_else_watch(first, ["a", "b"], 1_000)
    assert purgatory.try_complete_else_watch(second, ["a", "b"], 1_000)
    assert (second.completions, second.expirations) == (1, 1)
    assert not purgatory.try_complete_else_watch(third, ["c", "c"], 1_000)
    assert purgatory.watched_count == 3
    timer.advance(1_000)
    assert (first.completions, third.completions, purgatory.watched_count) == (1, 1, 0)


def test_one_that_fails_at_the_end_keeps_nobody_from_being_answered(purgatory: Purgatory) -> None:
    class Failing(WaitFor):
        def on_complete(self) -> None:
            raise RuntimeError("a mistake")

    failing, behind = Failing(set(), "a"), WaitFor(set(), "a")
    for operation in (failing, behind):
        purgatory.try_complete_else_watch(operation, ["a"], 1_000)
    purgatory.close()
    assert (behind.completions, purgatory.delayed_count) == (1, 0)
