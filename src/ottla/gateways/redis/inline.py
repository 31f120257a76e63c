"""Words of a line that a person typed: in quotes or not (`sdssplitargs` of Redis)."""

from typing import Final

_SPACES: Final = b" \t\n\v\f\r\0"
_ESCAPES: Final = {ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("b"): b"\b", ord("a"): b"\a"}
_DOUBLE, _SINGLE, _BACKSLASH = b"\"'\\"
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


def split_line(line: bytes) -> list[bytes] | None:
    """The words; None where a quote is not closed, or something follows the one that closes.

    >>> split_line(b'XADD s * name "J. \\\\x41"')
    [b'XADD', b's', b'*', b'name', b'J. A']
    """
    words: list[bytes] = []
    at, end = 0, len(line)
    while True:
        while at < end and line[at] in _SPACES:
            at += 1
        if at >= end:
            return words
        word = bytearray()
        while at < end and line[at] not in _SPACES:
            if line[at] in (_DOUBLE, _SINGLE):
                after = _quoted(line, at + 1, line[at], word)
                if after is None or (after < end and line[after] not in _SPACES):
                    return None
                at = after
            else:
                word.append(line[at])
                at += 1
        words.append(bytes(word))


def _quoted(line: bytes, at: int, quote: int, word: bytearray) -> int | None:
    """Read up to the quote that closes; returns where it goes on, None for no such quote."""
    end = len(line)
    while at < end:
        byte = line[at]
        if byte == quote:
            return at + 1
        if byte == _BACKSLASH and at + 1 < end:
            following = line[at + 1]
            if quote == _DOUBLE:
                digits = line[at + 2 : at + 4]
                if following == ord("x") and len(digits) == 2 and _HEX.issuperset(digits):
                    word.append(int(digits, 16))
                    at += 4
                    continue
                word += _ESCAPES.get(following, bytes((following,)))
                at += 2
                continue
            if following == _SINGLE:
                word.append(_SINGLE)
                at += 2
                continue
        word.append(byte)
        at += 1
    return None
