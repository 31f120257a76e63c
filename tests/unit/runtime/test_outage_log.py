"""What an outage leaves in a log."""

import logging

import pytest

from ottla.runtime.clock import ManualClock
from ottla.runtime.outage_log import OutageLog


def test_an_outage_is_told_at_its_beginning_less_and_less_and_at_its_end(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    log = OutageLog(logging.getLogger("test"), clock)
    for _ in range(16):  # 75 s
        log.failed("cannot reach %s", "b")
        clock.advance(5_000)
    log.over("reached %s again", "b")
    assert caplog.messages == [
        "cannot reach b",
        "cannot reach b (for 10 s)",
        "cannot reach b (for 30 s)",
        "cannot reach b (for 70 s)",
        "reached b again, after 80.0 s",
    ]


def test_what_works_is_not_told_and_a_second_outage_begins_anew(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    log = OutageLog(logging.getLogger("test"), ManualClock())
    log.over("works")
    for _ in range(2):
        log.failed("fails")
        log.over("works")
        log.over("works")
    assert caplog.messages == ["fails", "works, after 0.0 s"] * 2
