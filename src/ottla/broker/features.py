"""Which levels of features the cluster has agreed on, and changing that."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.feature_update import FeatureUpdate
from ottla.metadata.features import FEATURES, Feature
from ottla.metadata.image.image import MetadataImage
from ottla.model.principal import Principal


class FinalizedFeatures(Struct, frozen=True):
    """The levels that hold, without features that are not used, and the offset of the metadata that says so."""

    epoch: int
    levels: Mapping[str, int]


class FeatureService:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_controller")

    def __init__(self, controller: Controller, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    @property
    def supported(self) -> list[Feature]:
        """The features that this broker serves."""
        return [feature for feature in FEATURES.values() if feature.is_served]

    @property
    def finalized(self) -> FinalizedFeatures:
        """What holds for the cluster, as this broker knows it now."""
        image: MetadataImage = self._controller.image
        levels = {feature.name: image.feature_level(feature.name) for feature in self.supported}
        return FinalizedFeatures(image.end_offset, {name: level for name, level in levels.items() if level})

    async def update(
        self, principal: Principal, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Finalize levels, all or none.

        Raises ApiError CLUSTER_AUTHORIZATION_FAILED, INVALID_UPDATE_VERSION, NOT_CONTROLLER, KAFKA_STORAGE_ERROR.
        """
        require(self._authorizer, principal, Operation.ALTER, ResourceType.CLUSTER)
        await self._controller.update_features(updates, validate_only=validate_only)
