"""`meta.properties`: whose data directory this is.

version=1
cluster.id=4L6g3nShT-eMCtK--X86sw
node.id=1
directory.id=oS3kqpEUQjSIdl9u8qZ_sg        made once, with the directory (KIP-858)
ottla.release=0.1.0                        the release that wrote the file, which Kafka does not read
"""

from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla import __version__
from ottla.model.errors import InvalidInputError
from ottla.model.newer_release import needs_newer_release
from ottla.storage.partition_metadata import format_topic_id, parse_topic_id

_RELEASE: Final = "ottla.release"


class MetaProperties(Struct, frozen=True):
    """The identity of a data directory."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None
    """None in a file from before there were any."""


def format_meta_properties(properties: MetaProperties) -> bytes:
    """The content of the file."""
    return (
        f"version=1\ncluster.id={properties.cluster_id}\nnode.id={properties.node_id}\n"
        f"directory.id={'' if properties.directory_id is None else format_topic_id(properties.directory_id)}\n"
        f"{_RELEASE}={__version__}\n"
    ).encode()


def parse_meta_properties(data: bytes) -> MetaProperties:
    """What a file says; comments are passed over. Raises InvalidInputError."""
    try:
        lines = (line.strip() for line in data.decode().splitlines())
        fields = dict(line.split("=", 1) for line in lines if line and not line.startswith(("#", "!")))
        if fields["version"] not in ("0", "1"):
            raise InvalidInputError(needs_newer_release("it", fields["version"], "0 or 1", fields.get(_RELEASE)))
        node_id = fields["node.id"] if "node.id" in fields else fields["broker.id"]
        directory_id = fields.get("directory.id")
        return MetaProperties(
            fields["cluster.id"], int(node_id), parse_topic_id(directory_id) if directory_id else None
        )
    except InvalidInputError:
        raise
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"not a meta.properties file: {error}") from error
