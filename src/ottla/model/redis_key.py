"""Which topic is made for a key, and how the key is written in the topic's setting `redis.key`.

    database 0, orders        orders
    database 0, user:1        redis-0-user-3a1             bytes that no topic can have are `-` and two hex digits
    database 3, orders        redis-3-orders
    300 bytes                 redis-0-hash-<sha-256>

The setting says what the key is; the name is only for people. So a name that is taken gets a number behind it.

    0:orders        the topic was made with the key
    57/0:orders     it got the key later: what lies below offset 57 is of other writers, whatever it looks like
    ?/0:orders      it has just got the key, and its leader has not said yet where the stream begins
"""

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

PREFIX: Final = "redis-"
PLAIN_LENGTH_MAX: Final = 200
_PLAIN: Final = re.compile(rb"[a-zA-Z0-9._][a-zA-Z0-9._-]*").fullmatch
UNKNOWN: Final = "?"
"""Where a stream begins whose leader has not said it."""
OFFSET_DIGITS_MAX: Final = 18
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

    >>> key_of_setting("3:a%20b"), key_of_setting("57/3:a%20b")
    ((3, b'a b'), (3, b'a b'))
    """
    begin, rest = _split(text)
    database, colon, key = rest.partition(":")
    if begin is not None and begin != UNKNOWN and not _is_offset(begin):
        return None
    if not colon or not database.isascii() or not database.isdigit() or len(database) > DATABASE_DIGITS_MAX:
        return None
    return int(database), unquote_to_bytes(key)


def begin_of_setting(text: str) -> int | None:
    """The offset below which all records are of other writers; None where that is not known yet.

    >>> begin_of_setting("0:orders"), begin_of_setting("57/0:orders"), begin_of_setting("?/0:orders")
    (0, 57, None)
    """
    begin, _ = _split(text)
    if begin == UNKNOWN:
        return None
    return int(begin) if begin is not None and _is_offset(begin) else 0


def setting_from(begin: int, text: str) -> str:
    """A setting that says where the stream begins.

    >>> setting_from(57, "?/0:orders")
    '57/0:orders'
    """
    return f"{begin}/{_split(text)[1]}"


def changed_setting(before: str, wanted: str) -> str | None:
    """What the setting of a topic that is there becomes when somebody sets it; None where it cannot be.

    >>> changed_setting("", "0:orders"), changed_setting("57/0:orders", "0:b"), changed_setting("0:orders", "0:b")
    ('?/0:orders', '57/0:b', '0:b')
    """
    begin, rest = _split(wanted)
    had, _ = _split(before)
    if begin is None:
        return f"{UNKNOWN}/{rest}" if not before else rest if had is None else f"{had}/{rest}"
    if begin == had:
        return wanted
    is_earlier = had is not None and _is_offset(begin) and (had == UNKNOWN or int(begin) < int(had))
    return wanted if is_earlier else None


def _split(text: str) -> tuple[str | None, str]:
    """What is said of where the stream begins, and the rest."""
    head, colon, key = text.partition(":")
    begin, slash, database = head.rpartition("/")
    return (begin if slash else None), database + colon + key


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX
