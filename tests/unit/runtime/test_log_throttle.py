import logging

import pytest

from ottla.runtime.clock import ManualClock
from ottla.runtime.log_throttle import LogThrottle


def test_what_is_above_the_rate_is_counted_and_told_later(caplog: pytest.LogCaptureFixture):
    clock = ManualClock()
    throttle = LogThrottle(logging.getLogger("test"), clock, lines_max=2, window_ms=1_000)
    for number in range(5):
        throttle.warning("line %d", number)
    assert caplog.messages == ["line 0", "line 1"]
    clock.advance(1_000)
    throttle.warning("line %d", 5)
    assert caplog.messages[2:] == ["3 more such lines were kept back", "line 5"]
