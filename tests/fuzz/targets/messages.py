"""Every message in every version: what is decoded can be encoded, is decoded again as the same, and others agree.

CRC-32 of the message's name, lower 2 bytes | version, 1 byte, from the first one it has | body
"""

import zlib
from functools import cache
from typing import Any

from kio.serial.errors import OutOfBoundValue

from ottla.native.errors import MessageError
from ottla.protocol.message import Message
from tests.unit.protocol import kio_oracle, reference_codec
from tests.unit.protocol.message_strategy import all_messages, table_of


def id_of(message_class: type[Message]) -> int:
    """The number by which an input names a message; it stays when others come."""
    return zlib.crc32(message_class.__name__.encode()) & 0xFFFF


MESSAGES = all_messages()
BY_ID = {id_of(each): each for each in MESSAGES}
assert len(BY_ID) == len(MESSAGES), "two messages have one number"


def check(data: bytes) -> None:
    """See the top of the file."""
    if len(data) < 3:
        return
    number = int.from_bytes(data[:2], "big")
    message_class = BY_ID.get(number) or MESSAGES[number % len(MESSAGES)]
    versions = table_of(message_class).messages[message_class.__name__].versions
    version = versions.first + data[2] % (versions.last - versions.first + 1)
    try:
        message = message_class.decode(version, data, 3)
    except MessageError as error:
        says_enough_and_no_more(error)
        return
    written = message.encode(version)
    assert written == reference_codec.encode(message, version), message
    again = message_class.decode(version, written)
    assert again.encode(version) == written, message
    assert again == message or has_nan(repr(message)), (message, again)
    kio_agrees(message_class, version, written, again)


def kio_agrees(message_class: Any, version: int, written: bytes, message: Message) -> None:
    """kio, where it has the message, reads the same, or refuses a value that it takes for more than a number.

    It is asked only about bytes that were found sound: of a count that promises gigabytes it makes room for gigabytes.
    """
    kio_class = kio_class_of(message_class, version)
    if kio_class is None:
        return
    try:
        theirs = kio_oracle.as_ours(message_class, version, kio_oracle.decode(kio_class, written))
    except (ValueError, OverflowError, OutOfBoundValue):
        return
    assert theirs == message or has_nan(repr(message)), (theirs, message)


@cache
def kio_class_of(message_class: type[Message], version: int) -> Any:
    """kio's class, None when it has none."""
    try:
        return kio_oracle.class_of(message_class, version)
    except ModuleNotFoundError:
        return None


def says_enough_and_no_more(error: MessageError) -> None:
    """An error is for a log: it does not repeat what it was sent."""
    assert 0 < len(str(error)) < 1000, error


def has_nan(text: str) -> bool:
    """Whether a message holds a number that does not even equal itself."""
    return "=nan" in text
