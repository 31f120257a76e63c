"""Where a broker is reached by other brokers: the endpoint of the inter-broker listener that it registered."""

from typing import Final

from ottla.client.address import Address
from ottla.metadata.image.image import BrokerImage

SAME_HOST: Final = "127.0.0.1"
"""Where a broker is that registered no host: on the host of all the others, or it would have said which."""


def address_between_brokers(broker: BrokerImage, listener_name: str) -> Address | None:
    """The address of a broker's listener of that name; None when it has none."""
    if not broker.endpoints:
        return Address(broker.host or SAME_HOST, broker.port)
    endpoint = broker.endpoints.get(listener_name)
    return None if endpoint is None else Address(endpoint[0] or SAME_HOST, endpoint[1])
