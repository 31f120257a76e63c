"""Signals while pipelines run."""

import os
import signal

import pytest

from ottla.pipelines.runner.stop_signals import TOLD_MAX, StopSignals


def send(number: int) -> None:
    """Python's own handler runs before the next line does."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_anything_runs_a_signal_leaves_what_is_being_prepared(number):
    with pytest.raises(KeyboardInterrupt), StopSignals() as signals:
        send(number)
    assert signals.received == [number]


def test_two_signals_are_told_and_a_third_one_leaves():
    told = []
    with StopSignals() as signals:
        signals.tell(lambda: told.append(1))
        send(signal.SIGINT)
        send(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    assert len(told) == TOLD_MAX
    assert signals.received == [signal.SIGINT, signal.SIGTERM, signal.SIGINT]


def test_who_took_a_signal_in_between_does_not_keep_it_and_who_had_it_before_has_it_after():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    told = []
    with StopSignals() as signals:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signals.tell(lambda: told.append(1))
        send(signal.SIGINT)
    assert told == [1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
