"""Whether other brokers reach the metadata store: each is asked by DescribeQuorum, all at the same time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.client.errors import ClientError
from ottla.metadata.image.image import MetadataImage
from ottla.model.topic_name import CLUSTER_METADATA_TOPIC
from ottla.peers.broker_channels import STORE, BrokerChannels
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)

logger = logging.getLogger(__name__)

REACH_MS_MAX: Final = 2_500
"""A broker whose store does not answer says so after 2 s."""

_REQUEST: Final = DescribeQuorumRequest((RequestTopicData(CLUSTER_METADATA_TOPIC, (RequestPartitionData(0),)),))


class StoreReach:
    """Belongs to the event loop."""

    def __init__(self, channels: BrokerChannels, current_image: Callable[[], MetadataImage]) -> None:
        self._channels = channels
        self._current_image = current_image

    async def any(self) -> bool:
        """Whether a broker other than this one reaches the store. One that does not answer does not reach it."""
        others = [each for each in self._current_image().brokers if each != self._channels.broker_id]
        return any(await asyncio.gather(*map(self._reaches, others)))

    async def _reaches(self, broker_id: int) -> bool:
        try:
            answer = await self._channels.request(
                broker_id, _REQUEST, DescribeQuorumResponse, timeout_ms=REACH_MS_MAX, lane=STORE
            )
        except ClientError as error:
            logger.debug("broker %d does not say whether it reaches the metadata store: %s", broker_id, error)
            return False
        return not any(each.error_message for topic in answer.topics for each in topic.partitions)
