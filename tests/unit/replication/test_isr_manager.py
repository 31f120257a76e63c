"""What leaders say of the ISRs that they ask for."""

import logging
from typing import Any

import pytest

from ottla.replication.isr_manager import LINES_MAX, IsrManager
from ottla.runtime.timer import ManualTimer


def test_a_broker_that_goes_does_not_fill_the_log_of_those_that_lead_thousands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    timer, unused = ManualTimer(), object()
    parts: dict[str, Any] = dict.fromkeys(("opener", "fetch_purgatory", "tasks", "reaches"), unused)
    manager = IsrManager(1, unused, clock=timer.clock, timer=timer, lag_max_ms=1, silence_max_ms=1, **parts)  # type: ignore[arg-type]
    for count, lines in ((2, 2), (LINES_MAX + 5, LINES_MAX + 1)):
        caplog.clear()
        for index in range(count):
            manager._tell(f"a-{index}: ISR 1,2 is to become 1: broker 2 has offset 0")
        timer.advance(1)
        assert len(caplog.messages) == lines
        assert caplog.messages[0].startswith("a-0: ISR")
    assert caplog.messages[-1] == "and 5 more partitions that this broker leads"
