"""What can go wrong with another broker, beside what can go wrong with any connection (`ottla.client.errors`)."""

from ottla.client.errors import BrokerUnreachableError, ClientError


class BrokerNotKnownError(BrokerUnreachableError):
    """The cluster has no such broker, or it does not listen where brokers speak to each other."""


class NotProvenError(ClientError):
    """The other side did not prove that it is the broker it should be, or did not believe that we are one."""
