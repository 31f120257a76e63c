"""Every message in every version: what is decoded can be encoded, is decoded again as the same, and others agree.

CRC-32 of the message's name, lower 2 bytes | version, 1 byte, from the first one it has | body
"""

import zlib

from ottla.native.errors import MessageError
from ottla.protocol.message import Message
from tests.unit.protocol import reference_codec
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


def says_enough_and_no_more(error: MessageError) -> None:
    """An error is for a log: it does not repeat what it was sent."""
    assert 0 < len(str(error)) < 1000, error


def has_nan(text: str) -> bool:
    """Whether a message holds a number that does not even equal itself."""
    return "=nan" in text
