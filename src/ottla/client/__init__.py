"""Producer, consumer and admin for users of Kafka-compatible clusters, on an event loop or blocking.

Names are imported when they are first used, so that a program pays only for the parts it needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.address import Address as Address
    from ottla.client.admin.admin import Admin as Admin
    from ottla.client.admin.admin import NewTopic as NewTopic
    from ottla.client.admin.configs import ConfigResource as ConfigResource
    from ottla.client.blocking import BlockingClient as BlockingClient
    from ottla.client.consuming.consumer import Consumer as Consumer
    from ottla.client.consuming.consumer_options import ConsumerOptions as ConsumerOptions
    from ottla.client.consuming.consumer_options import GroupProtocol as GroupProtocol
    from ottla.client.consuming.consumer_options import OffsetReset as OffsetReset
    from ottla.client.consuming.fetch import FetchedBatches as FetchedBatches
    from ottla.client.consuming.group_subscription import SubscriptionPattern as SubscriptionPattern
    from ottla.client.consuming.offsets import IsolationLevel as IsolationLevel
    from ottla.client.consuming.offsets import OffsetAt as OffsetAt
    from ottla.client.consuming.share_consumer import ShareConsumer as ShareConsumer
    from ottla.client.consuming.share_options import AcknowledgementMode as AcknowledgementMode
    from ottla.client.consuming.share_options import AcknowledgeType as AcknowledgeType
    from ottla.client.consuming.share_options import AcquireMode as AcquireMode
    from ottla.client.consuming.share_options import ShareConsumerOptions as ShareConsumerOptions
    from ottla.client.consuming.sync_consumer import SyncConsumer as SyncConsumer
    from ottla.client.consuming.sync_share_consumer import SyncShareConsumer as SyncShareConsumer
    from ottla.client.errors import BrokerError as BrokerError
    from ottla.client.errors import ClientError as ClientError
    from ottla.client.options import ClientOptions as ClientOptions
    from ottla.client.producing.produce import Acks as Acks
    from ottla.client.producing.producer import Producer as Producer
    from ottla.client.producing.producer_options import ProducerOptions as ProducerOptions
    from ottla.client.producing.sync_producer import SyncProducer as SyncProducer

_MODULES = {
    "AcknowledgeType": "consuming.share_options",
    "AcknowledgementMode": "consuming.share_options",
    "AcquireMode": "consuming.share_options",
    "Acks": "producing.produce",
    "Address": "address",
    "Admin": "admin.admin",
    "BlockingClient": "blocking",
    "BrokerError": "errors",
    "ClientError": "errors",
    "ClientOptions": "options",
    "ConfigResource": "admin.configs",
    "Consumer": "consuming.consumer",
    "ConsumerOptions": "consuming.consumer_options",
    "FetchedBatches": "consuming.fetch",
    "GroupProtocol": "consuming.consumer_options",
    "IsolationLevel": "consuming.offsets",
    "NewTopic": "admin.admin",
    "OffsetAt": "consuming.offsets",
    "OffsetReset": "consuming.consumer_options",
    "Producer": "producing.producer",
    "ProducerOptions": "producing.producer_options",
    "ShareConsumer": "consuming.share_consumer",
    "ShareConsumerOptions": "consuming.share_options",
    "SubscriptionPattern": "consuming.group_subscription",
    "SyncConsumer": "consuming.sync_consumer",
    "SyncProducer": "producing.sync_producer",
    "SyncShareConsumer": "consuming.sync_share_consumer",
}

__all__ = tuple(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
