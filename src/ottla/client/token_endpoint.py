"""Tokens of OAUTHBEARER from an identity provider, by the grant client_credentials (RFC 6749, KIP-768, KIP-1139).

    POST /token   Authorization: Basic BASE64(id:secret)   grant_type=client_credentials&scope=...
    200           {"access_token": "eyJ...", "expires_in": 300}

A token is asked for when the one before it has lived for four fifths of its time; while the provider cannot be asked,
that one is shown as long as it is good. BLOCKING: who has an event loop asks in a thread.
"""

import base64
import binascii
import http.client
import json
import ssl
import threading
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

from msgspec import Struct

from ottla.client.errors import BrokerError, InvalidOptionError, TokenUnavailableError
from ottla.model.error_code import ErrorCode
from ottla.model.printable import printable
from ottla.runtime.clock import Clock, SystemClock
from ottla.security.tls_config import TlsConfig
from ottla.settings.definition import InvalidSettingError

RENEWED_AT: Final = 0.8
"""The part of a token's life after which another one is asked for: Kafka's `sasl.login.refresh.window.factor`."""
_ENDPOINTS_MAX: Final = 16
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_SHOWN_MAX: Final = 200
_OF_THE_PROVIDER: Final = 500
"""Statuses from here on may be others a moment later, as 429 and 408 may."""
_TRANSIENT: Final = frozenset({408, 429})


class TokenRequest(Struct, frozen=True, kw_only=True):
    """Whom to ask, who asks, and for what. Names are those of Kafka's settings."""

    url: str
    client_id: str
    client_secret: str
    scope: str = ""
    header_urlencode: bool = False
    """RFC 6749 has id and secret encoded for URLs before they are put into the header; many providers have not."""
    tls: TlsConfig | None = None
    """None where the authorities of the operating system are trusted."""
    timeout_ms: int = 10_000
    """For one answer."""
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    """The time after which it is not tried again."""

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"<TokenRequest {self.url} for {self.client_id!r}>"


class _Token(Struct, frozen=True):
    value: str
    renewed_ms: int
    ends_ms: int

    def __repr__(self) -> str:
        return "<_Token>"


class _RefusedError(Exception):
    """The provider has answered, and would again."""


class TokenEndpoint:
    """What one provider has given to one client. May be used by several threads: one asks, the others wait for it."""

    def __init__(self, request: TokenRequest, clock: Clock | None = None) -> None:
        self._request = request
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._token: _Token | None = None

    def token(self) -> str:
        """One that is good for some time.

        Raises TokenUnavailableError, BrokerError SASL_AUTHENTICATION_FAILED where the provider refuses, and
        InvalidOptionError for keys that cannot be used.
        """
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            token = self._token
            if token is None or now_ms >= token.renewed_ms:
                try:
                    token = self._token = self._asked_until_answered(now_ms)
                except TokenUnavailableError:
                    if token is None or self._clock.monotonic_ms() >= token.ends_ms:
                        raise
            return token.value

    def _asked_until_answered(self, begun_ms: int) -> _Token:
        request, failures, pause = self._request, 0, threading.Event()
        context = _context(request)
        while True:
            try:
                return self._asked(context)
            except _RefusedError as error:
                raise BrokerError(
                    ErrorCode.SASL_AUTHENTICATION_FAILED,
                    f"{request.url} gives no token to {request.client_id!r}: {error}",
                ) from None
            except (OSError, ValueError, http.client.HTTPException) as error:
                backoff_ms = min(request.backoff_ms << min(failures, 30), request.backoff_max_ms)
                failures += 1
                if self._clock.monotonic_ms() + backoff_ms >= begun_ms + request.backoff_max_ms:
                    raise TokenUnavailableError(f"{request.url} gives no token: {_why(error)}") from error
                pause.wait(backoff_ms / 1000)

    def _asked(self, context: ssl.SSLContext | None) -> _Token:
        request = self._request
        parts = urlsplit(request.url)
        assert parts.hostname is not None
        timeout_s = request.timeout_ms / 1000
        end_ms = self._clock.monotonic_ms() + request.timeout_ms
        connection = (
            http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
            if context is None
            else http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
        )
        encode = quote_plus if request.header_urlencode else str
        who = f"{encode(request.client_id)}:{encode(request.client_secret)}"
        wanted = {"grant_type": "client_credentials", **({"scope": request.scope} if request.scope else {})}
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(who.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("POST", target, urlencode(wanted), headers)
            answer = connection.getresponse()
            body = bytearray()
            while piece := answer.read1(_ANSWER_BYTES_MAX):
                body += piece
                if len(body) > _ANSWER_BYTES_MAX:
                    raise _RefusedError(f"its answer has more than {_ANSWER_BYTES_MAX} bytes")
                if self._clock.monotonic_ms() >= end_ms:
                    raise TimeoutError
            status = answer.status
        finally:
            connection.close()
        if status >= _OF_THE_PROVIDER or status in _TRANSIENT:
            raise OSError(_refusal(status, body))
        if status != http.client.OK:
            raise _RefusedError(_refusal(status, body))
        return self._token_of(body)

    def _token_of(self, body: bytearray) -> _Token:
        said = _json_object(body)
        value = said.get("access_token")
        if not isinstance(value, str) or not value.strip():
            raise _RefusedError("its answer has no access_token")
        lives_ms = self._life_ms(value, said.get("expires_in"))
        now_ms = self._clock.monotonic_ms()
        return _Token(value, now_ms + int(lives_ms * RENEWED_AT), now_ms + lives_ms)

    def _life_ms(self, token: str, expires_in: object) -> int:
        """As the token says, else the answer; 0 where nobody says it: then it is used once."""
        expires = _claims(token).get("exp")
        if isinstance(expires, int | float):
            return max(0, int(expires * 1000) - self._clock.now_ms())
        return int(expires_in) * 1000 if isinstance(expires_in, int) and 0 < expires_in < 2**31 else 0


@lru_cache(_ENDPOINTS_MAX)
def endpoint_of(request: TokenRequest) -> TokenEndpoint:
    """The same for all clients of a process that ask for the same."""
    return TokenEndpoint(request)


def _context(request: TokenRequest) -> ssl.SSLContext | None:
    if not request.url.lower().startswith("https:"):
        return None
    from ottla.security.tls_context import client_context

    try:
        return ssl.create_default_context() if request.tls is None else client_context(request.tls)
    except InvalidSettingError as error:
        raise InvalidOptionError(f"sasl_jaas_config: {error.message}") from error


def _claims(token: str) -> dict[str, object]:
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        return _json_object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error):
        return {}


def _json_object(data: bytes | bytearray) -> dict[str, object]:
    """Empty for what is none."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _refusal(status: int, body: bytearray) -> str:
    said = _json_object(body)
    why = ": ".join(str(said[each]) for each in ("error", "error_description") if isinstance(said.get(each), str))
    return f"status {status}" + (f", {printable(why, _SHOWN_MAX)}" if why else "")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not believed: {error.verify_message}; see ssl.truststore.location in sasl.jaas.config"
        )
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
