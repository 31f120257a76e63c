"""Rates are measured as Kafka measures them: see the numbers of its own documentation of quotas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.runtime.sampled_rate import SampledRate, Windows
from ottla.runtime.token_bucket import TokenBucket

ELEVEN = Windows(11, 1_000)


def recorded(*events, windows=ELEVEN):
    rate = SampledRate(windows)
    for now_ms, value in events:
        rate.record(value, now_ms)
    return rate


def test_what_all_windows_but_one_allow_may_be_spent_at_once():
    assert recorded((0, 10_000)).excess_ms(1_000, 0) == 0
    assert recorded((0, 10_001)).excess_ms(1_000, 0) == 1


def test_who_spends_too_much_waits_until_the_rate_is_right():
    # 20,000 in windows that count as 10 s are 2,000 a second: 10 s more make it 1,000.
    assert recorded((0, 20_000)).excess_ms(1_000, 0) == 10_000
    assert recorded((0, 20_000)).excess_ms(1_000, 500) == 9_500


def test_a_window_that_is_too_old_counts_no_more():
    rate = recorded((0, 20_000))
    assert rate.excess_ms(1_000, 10_999) > 0
    assert rate.excess_ms(1_000, 11_000) == 0
    assert rate.is_idle(11_000)


def test_with_all_windows_there_the_time_since_the_oldest_began_counts():
    rate = recorded(*((second * 1_000, 1_000) for second in range(11)))
    assert rate.excess_ms(1_000, 10_000) == round((11_000 / 10 - 1_000) / 1_000 * 10_000)
    assert rate.excess_ms(1_100, 10_000) == 0


def test_what_is_taken_back_was_never_there():
    rate = recorded((0, 20_000), (0, -20_000))
    assert (rate.excess_ms(1, 0), rate.is_idle(0)) == (0, True)


def test_one_window_is_never_shorter_than_itself():
    assert recorded((0, 1_000), windows=Windows(1, 1_000)).excess_ms(1_000, 0) == 0
    assert recorded((0, 2_000), windows=Windows(1, 1_000)).excess_ms(1_000, 0) == 1_000


def test_without_missing_windows_the_rate_holds_from_the_first_window_on():
    simple = Windows(11, 1_000, counts_missing=False)
    assert recorded((0, 1_000), windows=simple).excess_ms(1_000, 0) == 0
    assert recorded((0, 1_001), windows=simple).excess_ms(1_000, 0) == 1_001
    # 3,000 bytes are what 1,000 a second allow in 3 s, of which one has passed.
    assert recorded((0, 3_000), windows=simple).excess_ms(1_000, 1_000) == 2_000
    assert recorded((0, 3_000), windows=simple).excess_ms(1_000, 3_000) == 0


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 100_000)), max_size=200), st.integers(1, 100_000))
def test_who_keeps_to_the_times_he_is_told_never_spends_more_than_twice_his_rate_and_one_piece(steps, bound):
    # Twice: missing windows count as empty, so 21 s of a rate are paid in 11 s and then forgotten, as in Kafka.
    rate, now_ms, spent, largest = SampledRate(ELEVEN), 0, 0, 0
    for pause_ms, size in steps:
        now_ms += pause_ms
        rate.record(size, now_ms)
        spent, largest = spent + size, max(largest, size)
        now_ms += rate.excess_ms(bound, now_ms)
        rounding_ms = len(steps)
        assert spent <= 2 * bound * ((now_ms + rounding_ms) / 1_000 + 11) + largest
        assert len(rate._starts_ms) <= 12


def test_what_is_too_much_for_all_windows_is_forgotten_with_them_as_in_kafka():
    rate, now_ms = SampledRate(ELEVEN), 0
    for turn in range(1, 4):
        rate.record(21_000, now_ms)
        now_ms += rate.excess_ms(1_000, now_ms)
        assert now_ms == turn * 11_000


def test_a_bucket_is_full_at_first_and_again_after_a_while():
    bucket = TokenBucket(ELEVEN)
    bucket.take(110, 10, 5_000)
    assert bucket.debt_ms(10, 5_000) == 0
    bucket.take(1, 10, 5_000)
    assert bucket.debt_ms(10, 5_000) == 100
    assert bucket.debt_ms(10, 5_099) == 1
    assert bucket.debt_ms(10, 5_100) == 0
    bucket.take(110, 10, 16_100)
    assert bucket.debt_ms(10, 16_100) == 0


def test_tokens_that_are_given_back_do_not_overflow_it():
    bucket = TokenBucket(ELEVEN)
    bucket.take(-1_000, 10, 0)
    bucket.take(111, 10, 0)
    assert bucket.debt_ms(10, 0) == 100


@pytest.mark.parametrize("bound", [1e-9, 5e-324])
def test_nobody_waits_for_longer_than_an_answer_can_say(bound):
    assert recorded((0, 1e12)).excess_ms(bound, 0) == 2**31 - 1
    bucket = TokenBucket(ELEVEN)
    bucket.take(1e12, bound, 0)
    assert bucket.debt_ms(bound, 0) == 2**31 - 1
