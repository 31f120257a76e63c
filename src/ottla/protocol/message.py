"""What all Kafka messages have in common: a range of versions, and bytes on the wire."""

from collections.abc import Sequence
from typing import ClassVar, Protocol, Self, TypeAlias, cast
from uuid import UUID

from msgspec import Struct

from ottla.protocol import codec

ZERO_UUID = UUID(int=0)
"""The id that means: none."""

Records: TypeAlias = bytes | bytearray | memoryview
"""Record batches as they stand on the wire. Decoding gives a memoryview of the frame."""


class RecordSlices(Protocol):
    """Record batches that lie elsewhere, in a file for instance, and go to the peer without passing through here."""

    @property
    def total_bytes(self) -> int: ...

    @property
    def slices(self) -> Sequence[object]: ...


class Message(Struct, frozen=True):
    """A message of the Kafka protocol, at any of its versions.

    Fields that a version does not carry keep their defaults. Arrays are tuples when decoded, and any sequence may be
    given to encode.
    """

    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]

    def encode(self, version: int) -> bytes:
        """The message in the form of `version`.

        Raises MessageError when the version is unknown, a value does not fit its field, or a field holds something
        other than its default that the version cannot carry and may not drop.
        """
        return codec.codec_for(type(self), version).encode(self)

    @classmethod
    def decode(cls, version: int, data: bytes | bytearray | memoryview, offset: int = 0) -> Self:
        """Reads a message of `version` that starts at `offset` and fills the rest of `data`.

        Fields of the type `records` become memoryviews of `data`, not copies. Raises MessageError when the version is
        unknown or the bytes are not exactly one such message.
        """
        return cast("Self", codec.codec_for(cls, version).decode(data, offset))


class ApiMessage(Message, frozen=True):
    """A request or a response."""

    API_KEY: ClassVar[int]


class CoordinatorKey(Message, frozen=True):
    """The key of a record in an internal topic of a coordinator; its type says what the value is."""

    RECORD_TYPE: ClassVar[int]


class CoordinatorValue(Message, frozen=True):
    """The value of a record in an internal topic of a coordinator."""

    RECORD_TYPE: ClassVar[int]
