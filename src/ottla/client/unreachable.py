"""Why a connection could not be made or did not last, in words that say what to do."""

import errno
import socket

from ottla.client.address import Address
from ottla.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ConnectionLostError,
    RequestTimedOutError,
)


def unreachable(address: Address, error: OSError) -> BrokerUnreachableError:
    """The error for a connection attempt that failed."""
    return BrokerUnreachableError(f"cannot reach a broker at {address}: {_reason(error)}")


def not_a_broker(address: Address, error: ClientError) -> BrokerUnreachableError:
    """The error for a peer that took the connection and then did not speak as a broker does."""
    silent = isinstance(error, RequestTimedOutError)
    what = "it did not answer our first request" if silent else "it closed the connection at our first request"
    return BrokerUnreachableError(
        f"cannot reach a broker at {address}: {what}; is this the port of a Kafka-compatible broker, without TLS?"
    )


def lost(address: Address, error: BaseException | None, unanswered: int = 0) -> ConnectionLostError:
    """The error for a connection that ended. `error` is None when the broker closed it."""
    why = "the broker closed the connection" if error is None else _reason(error)
    waiting = f" with {unanswered} unanswered request{'s' * (unanswered != 1)}" if unanswered else ""
    return ConnectionLostError(f"connection to {address} lost{waiting}: {why}")


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError) or (isinstance(error, OSError) and error.errno == errno.ECONNREFUSED):
        return "connection refused; is it running? start one with `ottla serve`"
    if isinstance(error, TimeoutError):
        return "no answer; is the address right, and no firewall in between?"
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "the broker closed the connection"
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or errno.errorcode.get(error.errno, str(error))
    return str(error) or type(error).__name__
