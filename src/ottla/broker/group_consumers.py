"""Who reads a share group without being a member of it: NSQ clients, at the brokers that lead its partitions."""

from collections.abc import Callable

from ottla.broker.cluster_share_groups import RemoteShareGroups
from ottla.client.errors import ClientError
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError


class GroupConsumers:
    """Belongs to the event loop."""

    def __init__(
        self,
        here: Callable[[str], int],
        image: Callable[[], MetadataImage],
        broker_id: int,
        remote: RemoteShareGroups | None = None,
    ) -> None:
        """`here` counts those of this broker; `remote` reaches other brokers, None on one that is alone."""
        self._here = here
        self._image = image
        self._broker_id = broker_id
        self._remote = remote

    async def require_none(self, group_id: str) -> None:
        """Raises ApiError: NON_EMPTY_GROUP if somebody reads, COORDINATOR_NOT_AVAILABLE if a broker does not answer."""
        if self._here(group_id) or await self._has_any_elsewhere(group_id):
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    async def _has_any_elsewhere(self, group_id: str) -> bool:
        if self._remote is None:
            return False
        try:
            for broker_id in sorted(self._image().active_brokers() - {self._broker_id}):
                if await self._remote.consumers(broker_id, group_id):
                    return True
        except ClientError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return False
