"""Producer, consumer and admin for users of Kafka-compatible clusters, on an event loop or blocking.

Names are imported when they are first used, so that a program pays only for the parts it needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.address import Address as Address
    from ottla.client.admin import Admin as Admin
    from ottla.client.blocking import BlockingClient as BlockingClient
    from ottla.client.consumer import Consumer as Consumer
    from ottla.client.consumer_options import ConsumerOptions as ConsumerOptions
    from ottla.client.consumer_options import GroupProtocol as GroupProtocol
    from ottla.client.consumer_options import OffsetReset as OffsetReset
    from ottla.client.errors import BrokerError as BrokerError
    from ottla.client.errors import ClientError as ClientError
    from ottla.client.fetch import FetchedBatches as FetchedBatches
    from ottla.client.group_subscription import SubscriptionPattern as SubscriptionPattern
    from ottla.client.offsets import IsolationLevel as IsolationLevel
    from ottla.client.offsets import OffsetAt as OffsetAt
    from ottla.client.options import ClientOptions as ClientOptions
    from ottla.client.produce import Acks as Acks
    from ottla.client.producer import Producer as Producer
    from ottla.client.producer_options import ProducerOptions as ProducerOptions

_MODULES = {
    "Acks": "produce",
    "Address": "address",
    "Admin": "admin",
    "BlockingClient": "blocking",
    "BrokerError": "errors",
    "ClientError": "errors",
    "ClientOptions": "options",
    "Consumer": "consumer",
    "ConsumerOptions": "consumer_options",
    "FetchedBatches": "fetch",
    "GroupProtocol": "consumer_options",
    "IsolationLevel": "offsets",
    "OffsetAt": "offsets",
    "OffsetReset": "consumer_options",
    "Producer": "producer",
    "ProducerOptions": "producer_options",
    "SubscriptionPattern": "group_subscription",
}

__all__ = tuple(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
