"""Which topic is made for a key, and how the key is written in the topic's setting `redis.key`.

    database 0, orders        orders
    database 0, user:1        redis-0-user-3a1             bytes that no topic can have are `-` and two hex digits
    database 3, orders        redis-3-orders
    300 bytes                 redis-0-hash-<sha-256>

The setting says what the key is; the name is only for people. So a name that is taken gets a number behind it.
"""

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

PREFIX: Final = "redis-"
PLAIN_LENGTH_MAX: Final = 200
_PLAIN: Final = re.compile(rb"[a-zA-Z0-9._][a-zA-Z0-9._-]*").fullmatch
DATABASE_DIGITS_MAX: Final = 9
"""Whoever makes a topic may write anything into the setting, and Python reads no number of thousands of digits."""
_KEPT: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def topic_of_key(database: int, key: bytes) -> str:
    """The topic for a key.

    >>> topic_of_key(0, b"orders"), topic_of_key(0, b"user:1"), topic_of_key(3, b"orders")
    ('orders', 'redis-0-user-3a1', 'redis-3-orders')
    """
    if (
        not database
        and len(key) <= PLAIN_LENGTH_MAX
        and _PLAIN(key)
        and key.strip(b".")
        and not key.startswith((PREFIX.encode(), b"__"))
    ):
        return key.decode()
    escaped = "".join(chr(byte) if byte in _KEPT else f"-{byte:02x}" for byte in key[:PLAIN_LENGTH_MAX])
    if not key or len(key) > PLAIN_LENGTH_MAX or len(escaped) > PLAIN_LENGTH_MAX:
        from hashlib import sha256  # a broker without such keys does not read OpenSSL

        escaped = f"hash-{sha256(key).hexdigest()}"
    return f"{PREFIX}{database}-{escaped}"


def setting_of_key(database: int, key: bytes) -> str:
    """The value of `redis.key`.

    >>> setting_of_key(3, b"a b")
    '3:a%20b'
    """
    return f"{database}:{quote_from_bytes(key, safe='')}"


def key_of_setting(text: str) -> tuple[int, bytes] | None:
    """Database and key; None for a text that is no such setting.

    >>> key_of_setting("3:a%20b")
    (3, b'a b')
    """
    database, colon, key = text.partition(":")
    if not colon or not database.isascii() or not database.isdigit() or len(database) > DATABASE_DIGITS_MAX:
        return None
    return int(database), unquote_to_bytes(key)
