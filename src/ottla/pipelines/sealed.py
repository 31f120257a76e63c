"""Small files with a checksum: a JSON document and a line with its CRC-32C."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ottla.native import crc32c

T = TypeVar("T", bound=Struct)


class NotWholeError(ValueError):
    """The file is truncated, altered, of a newer format, or another file. The message says which, without the path."""


def seal(value: Struct) -> bytes:
    """The content of a file with this document."""
    body = msgspec.json.encode(value)
    return body + b"\n%08x\n" % crc32c(body)


def unseal(data: bytes, kind: type[T], *, newest_format: int | None = None) -> T:
    """The document in a file. With `newest_format`, other values of `format` raise. Raises NotWholeError."""
    body, _, rest = data.partition(b"\n")
    if rest != b"%08x\n" % crc32c(body):
        raise NotWholeError("this file of the manifest is cut or was altered; restore it from a copy")
    try:
        if newest_format is not None:
            found = msgspec.json.decode(body, type=dict[str, Any]).get("format")
            if found != newest_format:
                raise NotWholeError(f"it has format {found!r}, this version of Ottla reads format {newest_format}")
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise NotWholeError(f"this is not a file of a manifest: {error}") from None
