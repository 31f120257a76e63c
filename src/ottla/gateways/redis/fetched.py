"""What was read from logs for one command, which stays in memory until the command has run."""

from typing import Final

from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.node import Node

FIRST_BYTES: Final = 64 * 1024
BYTES_MAX: Final = 64 * 1024 * 1024
"""A command that needs more of logs is refused: its reply would have to be in memory as a whole."""


class Fetched:
    """Belongs to one command. Each time twice as much is read, so that the command is run again only a few times."""

    __slots__ = ("_bytes", "_entries")

    def __init__(self) -> None:
        self._entries: dict[Node, tuple[tuple[int, ...], dict[int, list[bytes]]]] = {}
        self._bytes = 0

    @property
    def next_bytes(self) -> int:
        """How much to read the next time."""
        return max(FIRST_BYTES, self._bytes)

    def add(self, nodes: list[Node], read_bytes: int) -> None:
        """Nodes were read. Raises RedisError when that is too much for one command."""
        self._bytes += read_bytes
        if self._bytes > BYTES_MAX:
            raise RedisError(
                f"ERR the command needs more than {BYTES_MAX >> 20} MiB of entries that are in no memory: ask for fewer"
            )
        for node in nodes:
            if node.entries is not None:
                self._entries[node] = _state(node), node.entries

    def hold(self) -> None:
        """Give nodes back what they have let go of meanwhile. To be called right before the command runs."""
        for node, (state, entries) in self._entries.items():
            if node.entries is None and node.last_id == state[0]:
                if _state(node) == state:
                    node.entries = entries
                else:
                    node.entries = {at: fields for at, fields in entries.items() if not node.has_removed(at)}


def _state(node: Node) -> tuple[int, ...]:
    """What is the same as long as a node has the same entries."""
    return node.last_id, node.floor, node.deleted
