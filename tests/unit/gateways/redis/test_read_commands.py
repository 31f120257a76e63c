"""Which of two mistakes an error names."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.read_commands import xrange, xrevrange
from ottla.gateways.redis.stream_id import ID_MAX, id_text


@pytest.mark.parametrize(
    ("start", "end", "error"),
    [
        (b"(-", b"(0-0", "Invalid stream ID"),
        (b"x", b"(0-0", "Invalid stream ID"),
        (b"(" + id_text(ID_MAX), b"x", "invalid start ID"),
        (b"-", b"(0-0", "invalid end ID"),
    ],
)
def test_the_start_of_an_interval_is_looked_at_first_in_either_direction(start: bytes, end: bytes, error: str) -> None:
    session: Any = Mock()
    with pytest.raises(RedisError, match=error):
        xrange(session, [b"XRANGE", b"s", start, end])
    with pytest.raises(RedisError, match=error):
        xrevrange(session, [b"XREVRANGE", b"s", end, start])
