"""Features: what all brokers of a cluster agree to use, each by its name and a level (KIP-584, KIP-1022).

A broker supports a range of levels; one of them is finalized for the cluster, by UpdateFeatures or, while nobody has
said anything, by the default: the newest. Level 0 means that the feature is not used. Clients learn both from
ApiVersions and use what is finalized.

Only what is served has a row that is shown. Kafka's other features have nothing to switch here: `kraft.version` (there
is no KRaft quorum) and `eligible.leader.replicas.version` (eligible leader replicas are always kept).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
STREAMS_VERSION: Final = "streams.version"
SHARE_VERSION: Final = "share.version"


class Feature(Struct, frozen=True):
    """A feature with the levels that this release serves; a highest level of 0 means that it is not served at all."""

    name: str
    min_level: int
    max_level: int

    @property
    def default_level(self) -> int:
        """The level that holds while none was finalized."""
        return self.max_level

    @property
    def is_served(self) -> bool:
        """Whether there is anything to agree on."""
        return self.max_level > 0


FEATURES: Final[Mapping[str, Feature]] = MappingProxyType(
    {
        each.name: each
        for each in (
            # name, lowest and highest level served
            Feature(METADATA_VERSION, 30, 30),  # 4.3-IV0: which requests of Kafka's there are; one release, one level
            Feature(TRANSACTION_VERSION, 0, 2),  # 1 flexible records; 2 transactions that fence each other (KIP-890)
            Feature(GROUP_VERSION, 0, 1),  # 1 consumer groups of KIP-848
            Feature(STREAMS_VERSION, 0, 1),  # 1 streams groups of KIP-1071
            Feature(SHARE_VERSION, 0, 1),  # 1 share groups of KIP-932
        )
    }
)
"""The features by name, in the order in which they are shown."""
