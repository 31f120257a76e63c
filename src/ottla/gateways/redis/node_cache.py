"""Which nodes of streams have their entries in memory: those used last, within a limit of bytes."""

from collections import OrderedDict
from typing import Final

from ottla.gateways.redis.node import Node

ENTRY_BYTES: Final = 350
"""What an entry costs beside its data, about."""
_LOOKS_MAX: Final = 8


class NodeCache:
    """Belongs to the event loop. Nodes that grow, or are not on disk yet, stay whatever the limit says."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._costs: OrderedDict[Node, int] = OrderedDict()
        self._bytes = 0

    def touch(self, node: Node) -> None:
        """A node is used."""
        costs = self._costs
        before = costs.pop(node, 0)
        cost = max(4096, node.size) + ENTRY_BYTES * node.count
        costs[node] = cost
        self._bytes += cost - before

    def trim(self) -> None:
        """Let go of what is beyond the limit. To be called when no command is under way."""
        looks = 0
        while self._bytes > self._bytes_max and looks < len(self._costs):
            node, cost = self._costs.popitem(last=False)
            if node.is_written and not node.grows:
                self._bytes -= cost
                node.forget_entries()
                looks = 0
            else:
                self._costs[node] = cost
                looks += 1
                if looks > _LOOKS_MAX:
                    return
