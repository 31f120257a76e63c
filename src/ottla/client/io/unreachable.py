"""Why a connection could not be made or did not last, in words that say what to do."""

import errno
import socket
import sys

from ottla.client.address import Address
from ottla.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ConnectionLostError,
    ProtocolViolationError,
    RequestTimedOutError,
)
from ottla.protocol.message import ApiMessage


def unreachable(address: Address, error: OSError, *, is_encrypted: bool = False) -> BrokerUnreachableError:
    """The error for a connection attempt that failed; `is_encrypted` says that it was to speak TLS."""
    was_ended = is_encrypted and isinstance(error, ConnectionResetError | BrokenPipeError | ConnectionAbortedError)
    reason = _tls_reason(error, was_ended=was_ended) or _reason(error)
    return BrokerUnreachableError(f"cannot reach a broker at {address}: {reason}")


def was_not_believed(error: ClientError) -> bool:
    """Whether a connection was not made because of the certificate of one of both sides, which time does not cure."""
    if "ssl" not in sys.modules:  # then nobody has spoken TLS
        return False
    from ssl import SSLEOFError, SSLError

    # A side that does not believe the other one ends the connection: only that is also what a broker does that stops.
    return isinstance(error.__cause__, SSLError) and not isinstance(error.__cause__, SSLEOFError)


def elsewhere(node_id: int, error: BrokerUnreachableError) -> BrokerUnreachableError:
    """The error for a broker that cannot be reached where the cluster says it is: a bootstrap address was reached."""
    return BrokerUnreachableError(f"{error} ({_advertised(node_id)})")


def connecting(node_id: int | None, address: Address) -> str:
    """What a connection that is being made waits for; `node_id` is None for a bootstrap address."""
    where = f"no answer from {address} yet"
    return where if node_id is None else f"{where} ({_advertised(node_id)})"


def unanswered(address: Address, message: ApiMessage) -> str:
    """What a request waits for that was sent."""
    return f"the broker at {address} has not answered {type(message).__name__.removesuffix('Request')} yet"


def _advertised(node_id: int) -> str:
    return (
        f"this is the advertised address of broker {node_id}; `ottla serve --advertise HOST:PORT` sets one that this "
        "client can reach"
    )


def not_a_broker(address: Address, error: ClientError, *, is_encrypted: bool = False) -> BrokerUnreachableError:
    """The error for a peer that took the connection and then did not speak as a broker does."""
    tls_reason = _tls_reason(error.__cause__)
    if tls_reason is not None:
        return BrokerUnreachableError(f"cannot reach a broker at {address}: {tls_reason}")
    silent = isinstance(error, RequestTimedOutError)
    what = "it did not answer our first request" if silent else "it closed the connection at our first request"
    hint = (
        "does its listener want a certificate of the client (ssl.keystore.location)?"
        if is_encrypted
        else "is this the port of a Kafka-compatible broker, and is its listener one of this security.protocol?"
    )
    return BrokerUnreachableError(f"cannot reach a broker at {address}: {what}; {hint}")


def lost(address: Address, error: BaseException | None, unanswered: int = 0) -> ConnectionLostError:
    """The error for a connection that ended. `error` is None when the broker closed it."""
    why = "the broker closed the connection" if error is None else _tls_reason(error) or _reason(error)
    waiting = f" with {unanswered} unanswered request{'s' * (unanswered != 1)}" if unanswered else ""
    ended = ConnectionLostError(f"connection to {address} lost{waiting}: {why}")
    ended.__cause__ = error
    return ended


def refused_at_first(error: ConnectionLostError) -> ConnectionLostError:
    """The same error for a client without a login whose very first question ended the connection."""
    return ConnectionLostError(
        f"{error}; if its listener asks for a login, set security.protocol to SASL_SSL or SASL_PLAINTEXT"
    )


def unreadable(address: Address, error: Exception) -> ProtocolViolationError:
    """The error for an answer that is not one of Kafka's protocol, or not to what was asked."""
    return ProtocolViolationError(f"the answer of {address} cannot be read: {error}")


def _tls_reason(error: BaseException | None, *, was_ended: bool = False) -> str | None:
    """Why TLS failed, if it is that."""
    if error is None or "ssl" not in sys.modules:  # then nobody has spoken TLS
        return None
    from ssl import SSLError

    if not (was_ended or isinstance(error, SSLError)):
        return None
    from ottla.security.tls_failures import why_server_failed

    return why_server_failed(error)


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
