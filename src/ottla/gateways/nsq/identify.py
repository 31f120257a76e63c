"""What a client says of itself with IDENTIFY, and what it is answered (nsq.io, TCP protocol spec).

A 0 leaves the default, -1 switches heartbeats or buffering off. Names of fields are read whatever their case, as Go
reads them.
"""

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.limits import NsqLimits

T = TypeVar("T")

VERSION: Final = "1.3.0"
"""The version of nsqd that clients may expect the behaviour of."""
DEFLATE_LEVEL: Final = 6
SAMPLE_RATE_MAX: Final = 99
TIMEOUT_MIN_MS: Final = 1_000
OUTPUT_BUFFER_BYTES_MIN: Final = 64
OFF: Final = -1


class ClientOptions(Struct, frozen=True):
    """How a connection is served; times in milliseconds, a heartbeat interval or buffer timeout of 0 is off."""

    client_id: str = ""
    hostname: str = ""
    user_agent: str = ""
    heartbeat_interval_ms: int = 30_000
    output_buffer_bytes: int = 16 * 1024
    output_buffer_timeout_ms: int = 250
    message_timeout_ms: int = 60_000
    sample_rate: int = 0
    negotiates: bool = False
    tls: bool = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = DEFLATE_LEVEL


def options_before_identify(limits: NsqLimits) -> ClientOptions:
    """How a connection is served whose client has not said anything of itself."""
    return ClientOptions(
        heartbeat_interval_ms=limits.heartbeat_interval_ms,
        output_buffer_bytes=limits.output_buffer_bytes,
        output_buffer_timeout_ms=limits.output_buffer_timeout_ms,
        message_timeout_ms=limits.message_timeout_ms,
    )


def options_of(body: bytes, limits: NsqLimits, before: ClientOptions, *, has_tls: bool) -> ClientOptions:
    """What the body of an IDENTIFY says. Raises NsqError."""
    said = _Said(body)
    interval_ms = said.integer("heartbeat_interval")
    buffer_bytes = said.integer("output_buffer_size")
    buffer_timeout_ms = said.integer("output_buffer_timeout")
    sample_rate = said.integer("sample_rate", bits=32)
    message_timeout_ms = said.integer("msg_timeout")
    heartbeat = _choice(
        "heartbeat interval",
        interval_ms,
        TIMEOUT_MIN_MS,
        limits.heartbeat_interval_max_ms,
        before.heartbeat_interval_ms,
        off=0,
    )
    timeout = _choice(
        "output buffer timeout",
        buffer_timeout_ms,
        limits.output_buffer_timeout_min_ms,
        limits.output_buffer_timeout_max_ms,
        before.output_buffer_timeout_ms,
        off=0,
    )
    size = _choice(
        "output buffer size",
        buffer_bytes,
        OUTPUT_BUFFER_BYTES_MIN,
        limits.output_buffer_bytes_max,
        before.output_buffer_bytes,
        off=1,
    )
    if not 0 <= sample_rate <= SAMPLE_RATE_MAX:
        raise _is_invalid("sample rate", sample_rate)
    if message_timeout_ms and not TIMEOUT_MIN_MS <= message_timeout_ms <= limits.message_timeout_max_ms:
        raise _is_invalid("msg timeout", message_timeout_ms)
    tls = said.boolean("tls_v1") and has_tls
    deflate = said.boolean("deflate") and limits.is_deflate_enabled
    snappy = said.boolean("snappy") and limits.is_snappy_enabled
    level = said.integer("deflate_level")
    negotiates = said.boolean("feature_negotiation")
    if negotiates and deflate and snappy:
        raise NsqError("E_IDENTIFY_FAILED", "cannot enable both deflate and snappy compression")
    return ClientOptions(
        client_id=said.text("client_id"),
        hostname=said.text("hostname"),
        user_agent=said.text("user_agent"),
        heartbeat_interval_ms=heartbeat,
        output_buffer_bytes=size,
        output_buffer_timeout_ms=0 if buffer_bytes == OFF else timeout,
        message_timeout_ms=message_timeout_ms or before.message_timeout_ms,
        sample_rate=sample_rate,
        negotiates=negotiates,
        tls=negotiates and tls,
        snappy=negotiates and snappy,
        deflate=negotiates and deflate,
        deflate_level=min(level if deflate and level > 0 else DEFLATE_LEVEL, limits.deflate_level_max),
    )


def negotiated(options: ClientOptions, limits: NsqLimits, *, auth_required: bool) -> bytes:
    """What is answered to a client that negotiates."""
    return msgspec.json.encode(
        {
            "max_rdy_count": limits.ready_count_max,
            "version": VERSION,
            "max_msg_timeout": limits.message_timeout_max_ms,
            "msg_timeout": options.message_timeout_ms,
            "tls_v1": options.tls,
            "deflate": options.deflate,
            "deflate_level": options.deflate_level,
            "max_deflate_level": limits.deflate_level_max,
            "snappy": options.snappy,
            "sample_rate": options.sample_rate,
            "auth_required": auth_required,
            "output_buffer_size": options.output_buffer_bytes,
            "output_buffer_timeout": options.output_buffer_timeout_ms,
        }
    )


class _Said:
    """The fields of the body; each is asked for by its type, and one of another type is a mistake of the whole."""

    def __init__(self, body: bytes) -> None:
        try:
            document: Any = msgspec.json.decode(body.decode(errors="replace"))
        except (msgspec.DecodeError, RecursionError):
            raise _not_json() from None
        if not isinstance(document, dict):
            if document is None:
                document = {}
            else:
                raise _not_json()
        self._fields = {str(name).lower(): value for name, value in document.items()}

    def text(self, name: str) -> str:
        return self._get(name, str, "")

    def integer(self, name: str, *, bits: int = 64) -> int:
        value = self._get(name, int, 0)
        if isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise _not_json()
        return value

    def boolean(self, name: str) -> bool:
        return self._get(name, bool, False)

    def _get(self, name: str, kind: type[T], default: T) -> T:
        value = self._fields.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise _not_json()
        return value


def _choice(what: str, said: int, lowest: int, highest: int, default: int, *, off: int) -> int:
    if said == OFF:
        return off
    if said == 0:
        return default
    if not lowest <= said <= highest:
        raise _is_invalid(what, said)
    return said


def _is_invalid(what: str, said: int) -> NsqError:
    return NsqError("E_BAD_BODY", f"IDENTIFY {what} ({said}) is invalid")


def _not_json() -> NsqError:
    return NsqError("E_BAD_BODY", "IDENTIFY failed to decode JSON body")
