import logging

import pytest

from ottla.runtime.clock import ManualClock
from ottla.runtime.log_throttle import LINE_MAX, LogThrottle


def test_what_is_above_the_rate_is_counted_and_told_later(caplog: pytest.LogCaptureFixture):
    clock = ManualClock()
    throttle = LogThrottle(logging.getLogger("test"), clock, lines_max=2, window_ms=1_000)
    for number in range(5):
        throttle.warning("line %d", number)
    assert caplog.messages == ["line 0", "line 1"]
    clock.advance(1_000)
    throttle.warning("line %d", 5)
    assert caplog.messages[2:] == ["3 more such lines were suppressed", "line 5"]


def test_what_a_peer_sent_stays_on_one_line_and_does_not_fill_the_log(caplog: pytest.LogCaptureFixture):
    throttle = LogThrottle(logging.getLogger("test"), ManualClock())
    throttle.warning("%s is no name", "a\n2026 INFO all is well \x1b[2J")
    throttle.warning("%s", "\0" * 100_000)
    throttle.warning("100% of it")
    assert caplog.messages[0] == "a\\n2026 INFO all is well \\u001b[2J is no name"
    assert len(caplog.messages[1]) == LINE_MAX
    assert caplog.messages[2] == "100% of it"
