"""What the producers of a run write: values that tell who sent them, in which order, and whether a byte changed."""

from typing import NamedTuple
from zlib import crc32


class Payload(NamedTuple):
    """What a value says of itself: its producer, and the number the producer gave it, from 0 on."""

    producer: str
    number: int


def value_of(producer: str, number: int, size: int) -> bytes:
    """A value of about `size` bytes: `producer:number:filler:crc`."""
    head = f"{producer}:{number}:".encode()
    filler = (b"%x." % (number * 2_654_435_761)) * (size // 8)
    body = head + filler[: max(0, size - len(head) - 9)] + b":"
    return body + b"%08x" % crc32(body)


def read_value(value: bytes | None) -> Payload | None:
    """Whose value it is; None when it is none of ours, or not as it was sent."""
    if value is None or b"%08x" % crc32(value[:-8]) != value[-8:]:
        return None
    producer, number, _ = value.split(b":", 2)
    return Payload(producer.decode(), int(number))
