"""`partition.metadata`: which topic a log directory belongs to, by id (KIP-516).

version: 0
topic_id: 4ZmC4UjRQmGZ1H8jQ2y1mA        the UUID in URL-safe base64 without padding
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

from ottla.model.errors import InvalidInputError

UNKNOWN_TOPIC_ID: Final = UUID(int=0)
"""Of a log whose file is missing or cannot be read."""


def format_topic_id(topic_id: UUID) -> str:
    """The 22 characters Kafka writes for an id."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_topic_id(text: str) -> UUID:
    """The id of such characters. Raises ValueError."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def format_partition_metadata(topic_id: UUID) -> bytes:
    """The content of the file."""
    return f"version: 0\ntopic_id: {format_topic_id(topic_id)}\n".encode()


def parse_partition_metadata(data: bytes) -> UUID:
    """The topic id in a file. Raises InvalidInputError."""
    if not data:
        raise InvalidInputError("the file is empty, as after a crash before the first record")
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if fields["version"] != "0":
            raise InvalidInputError(f"partition.metadata version {fields['version']} is not known")
        return parse_topic_id(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"not a partition.metadata file: {error}") from error
