"""Replies in both protocols."""

from typing import Any

import pytest

from ottla.gateways.redis.reply import NULL_ARRAY, RESP2, RESP3, Failure, Pairs, Raw, Simple, Verbatim, encode, entry


@pytest.mark.parametrize(
    ("reply", "resp2", "resp3"),
    [
        (b"ab", b"$2\r\nab\r\n", None),
        (-7, b":-7\r\n", None),
        ([b"a", [1, None]], b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n", b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n"),
        (None, b"$-1\r\n", b"_\r\n"),
        (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
        ({b"a": 1, b"b": 2}, b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n", b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n"),
        (Pairs([(b"s", [])]), b"*1\r\n*2\r\n$1\r\ns\r\n*0\r\n", b"%1\r\n$1\r\ns\r\n*0\r\n"),
        (Verbatim(b"x"), b"$1\r\nx\r\n", b"=5\r\ntxt:x\r\n"),
        (Simple(b"OK"), b"+OK\r\n", None),
        (Failure(b"ERR x"), b"-ERR x\r\n", None),
        ([Raw(entry(b"1-0", [b"f", b"v"]))], b"*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", None),
    ],
)
def test_a_reply_in_both_protocols(reply: Any, resp2: bytes, resp3: bytes | None) -> None:
    assert encode(reply, RESP2) == resp2
    assert encode(reply, RESP3) == (resp2 if resp3 is None else resp3)
