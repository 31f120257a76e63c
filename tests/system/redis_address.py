"""Where a broker serves Redis clients."""

from __future__ import annotations

import re

from tests.broker_process import BrokerProcess


def redis_address(broker: BrokerProcess) -> tuple[str, int]:
    """Host and port, by the line that says that it is ready."""
    match = re.search(r"redis (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return match[1], int(match[2])
