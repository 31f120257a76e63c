"""Another implementation that cannot be had here: its tests are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tools.peers import PeerUnavailableError


@contextmanager
def needed_peer() -> Iterator[None]:
    """Around what brings it. Skips the test that asked for it where it cannot be brought."""
    try:
        yield
    except PeerUnavailableError as reason:
        pytest.skip(str(reason))
