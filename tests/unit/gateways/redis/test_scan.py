"""SCAN shows each key that is there all the time, and once, whatever comes and goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, patch

import pytest

from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.key_commands import scan

KEYS = [b"key:%d" % number for number in range(500)]


def scanned(names: list[bytes], *options: bytes, meanwhile: Callable[[list[bytes]], None] = lambda shown: None) -> Any:
    """What a whole scan shows; `meanwhile` is told of each part, and may change the names."""
    session: Any = Mock()
    session.key_names = lambda: list(names)
    shown: list[bytes] = []
    cursor = b"0"
    while True:
        cursor, part = scan(session, [b"SCAN", cursor, *options])
        shown += part
        if cursor == b"0":
            return shown
        meanwhile(part)


def test_each_key_is_shown_once() -> None:
    assert sorted(scanned(KEYS)) == sorted(KEYS)
    assert sorted(scanned(KEYS, b"COUNT", b"1000")) == sorted(KEYS)
    assert sorted(scanned(KEYS, b"MATCH", b"*7")) == sorted(key for key in KEYS if key.endswith(b"7"))
    assert scanned(KEYS, b"TYPE", b"hash") == []
    assert scanned([]) == []


def test_keys_that_are_deleted_as_they_are_shown_hide_no_others() -> None:
    names = list(KEYS)

    def delete(shown: list[bytes]) -> None:
        for key in shown:
            names.remove(key)

    assert sorted(scanned(names, meanwhile=delete)) == sorted(KEYS)


def test_keys_that_come_meanwhile_hide_no_others_and_show_none_twice() -> None:
    names = list(KEYS)
    shown = scanned(names, meanwhile=lambda part: names.extend(b"new:%d:%b" % (len(names), key) for key in part[:2]))
    old = [key for key in shown if not key.startswith(b"new:")]
    assert sorted(old) == sorted(KEYS)
    assert len(set(shown)) == len(shown)


def test_keys_at_one_place_are_shown_together() -> None:
    with patch("zlib.crc32", lambda key: len(key) % 3):
        assert sorted(scanned(KEYS, b"COUNT", b"1")) == sorted(KEYS)


@pytest.mark.parametrize("cursor", [b"-1", b"x", b"", b"9" * 21])
def test_what_is_no_cursor_is_refused(cursor: bytes) -> None:
    with pytest.raises(RedisError, match="invalid cursor"):
        scan(Mock(), [b"SCAN", cursor])
