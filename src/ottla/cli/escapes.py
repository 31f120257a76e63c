r"""Characters that are awkward on a command line: `\n \r \t \0 \\ \xNN`."""

import os
import re

_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


def unescape(text: str) -> bytes:
    r"""The bytes that a text of a command line stands for; an escape that is not known stays as it is.

    >>> unescape(r"a\tb\x00"), unescape(r"\d")
    (b'a\tb\x00', b'\\d')
    """
    return _ESCAPE.sub(_replace, os.fsencode(text))


def _replace(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if len(name) == 3:
        return bytes([int(name[1:], 16)])
    return _NAMED.get(name, match[0])
