"""How a client logs in: Kafka's `sasl.` settings, with underscores.

    ClientOptions.of("kafka.example:9092", security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512",
                     sasl_username="anna", sasl_password=password)

A JAAS line of Kafka's says the same: `sasl_jaas_config`. With OAUTHBEARER the client shows a token, which it asks for
whenever it logs in: of `sasl_oauthbearer_token`, a function, of a file,
`sasl_oauthbearer_token_endpoint_url="file:///run/secrets/token"`, or of an identity provider,
`sasl_oauthbearer_token_endpoint_url="https://login.example/token"` with the id and the secret of this client.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ottla.client.arguments import check_kinds, function
from ottla.client.errors import InvalidOptionError
from ottla.model.sasl import GSSAPI, OAUTHBEARER, PLAIN, SASL_MECHANISMS, SCRAM_SHA_512, TOKEN_AUTH
from ottla.settings.jaas import JaasEntry, JaasError, mechanism_of, parse_jaas

if TYPE_CHECKING:
    from ottla.client.token_endpoint import TokenRequest

_SALTED_MAX: Final = 64
_TOKEN_BYTES_MAX: Final = 65_536


class ClientSasl(Struct, frozen=True, kw_only=True):
    """Who the client is, and by which mechanism it proves that."""

    sasl_mechanism: str = ""
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; empty for what the JAAS line is for, or SCRAM-SHA-512."""
    sasl_username: str = ""
    sasl_password: str = ""
    sasl_jaas_config: str = ""
    sasl_oauthbearer_token_endpoint_url: str = ""
    """Where tokens are: a file, `file:///PATH`, which is read at each login, or a URL of https or http, which is asked
    by the grant client_credentials."""
    sasl_oauthbearer_client_credentials_client_id: str = ""
    """Who asks for a token; in a JAAS line it is `clientId`."""
    sasl_oauthbearer_client_credentials_client_secret: str = ""
    """In a JAAS line it is `clientSecret`."""
    sasl_oauthbearer_scope: str = ""
    """What the token is to be for; in a JAAS line it is `scope`."""
    sasl_oauthbearer_header_urlencode: bool = False
    """Whether id and secret are encoded as RFC 6749 has it."""
    sasl_login_read_timeout_ms: int = 10_000
    """For one answer of the identity provider."""
    sasl_login_retry_backoff_ms: int = 100
    sasl_login_retry_backoff_max_ms: int = 10_000
    """For how long an identity provider that does not answer is asked again."""
    sasl_oauthbearer_token: Callable[[], str] | None = None
    """Returns the token. It is asked at each login and returns at once, for nothing else goes on meanwhile."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.sasl_mechanism == GSSAPI:
            raise InvalidOptionError(
                f"sasl_mechanism GSSAPI (Kerberos) is not supported; there are {', '.join(SASL_MECHANISMS)}"
            )
        if self.sasl_mechanism not in ("", *SASL_MECHANISMS):
            raise InvalidOptionError(
                f"sasl_mechanism must be {' or '.join(SASL_MECHANISMS)}, not {self.sasl_mechanism[:100]!r}"
            )
        if self.mechanism == OAUTHBEARER:
            self._check_token_source()
            return
        user, password = self.credentials
        if not user or not password:
            raise InvalidOptionError("a listener with SASL needs sasl.username and sasl.password, or sasl.jaas.config")

    def __repr__(self) -> str:
        """Without what is secret."""
        who = "" if self.mechanism == OAUTHBEARER else f" as {self.credentials[0]!r}"
        return f"<ClientSasl {self.mechanism}{who}>"

    @property
    def mechanism(self) -> str:
        """By which it logs in."""
        if self.sasl_mechanism:
            return self.sasl_mechanism
        if self.sasl_jaas_config:
            return mechanism_of(self._jaas())
        is_by_token = self.sasl_oauthbearer_token or self.sasl_oauthbearer_token_endpoint_url
        return OAUTHBEARER if is_by_token else SCRAM_SHA_512

    @property
    def credentials(self) -> tuple[str, str]:
        """The name and the password."""
        if not self.sasl_jaas_config:
            return self.sasl_username, self.sasl_password
        entry = self._jaas()
        return entry.options.get("username", ""), entry.options.get("password", "")

    @property
    def is_delegation_token(self) -> bool:
        """Whether name and password are the id and the secret of a delegation token."""
        return bool(self.sasl_jaas_config) and self._jaas().options.get(TOKEN_AUTH, "").lower() == "true"

    def token(self) -> str:
        """The token to log in with now. Raises InvalidOptionError where there is none.

        BLOCKING where the client `asks_for_tokens`; then it raises what `TokenEndpoint.token` does.
        """
        if self.sasl_oauthbearer_token is not None:
            token = self.sasl_oauthbearer_token()
            if not isinstance(token, str):
                raise InvalidOptionError("sasl_oauthbearer_token must return a string")
        elif self.asks_for_tokens:
            from ottla.client.token_endpoint import endpoint_of  # HTTP, which others do without

            token = endpoint_of(self._request()).token()
        else:
            path = Path(unquote(urlsplit(self.sasl_oauthbearer_token_endpoint_url).path))
            try:
                with path.open(encoding="ascii") as file:
                    token = file.read(_TOKEN_BYTES_MAX)
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no token"
                raise InvalidOptionError(f"sasl_oauthbearer_token_endpoint_url: {path}: {reason}") from None
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidOptionError("the token to log in with is empty, or none")
        return token

    def _check_token_source(self) -> None:
        if self.sasl_jaas_config:
            self._jaas()
        if self.sasl_oauthbearer_token is not None:
            function("sasl_oauthbearer_token", self.sasl_oauthbearer_token)
        elif not self.sasl_oauthbearer_token_endpoint_url:
            raise InvalidOptionError("OAUTHBEARER needs sasl_oauthbearer_token_endpoint_url or sasl_oauthbearer_token")
        elif self.asks_for_tokens:
            self._check_request()
        elif not self.sasl_oauthbearer_token_endpoint_url.startswith("file:///"):
            raise InvalidOptionError(
                "sasl_oauthbearer_token_endpoint_url must be file:///PATH, or a URL of https or http with a host"
            )

    def _check_request(self) -> None:
        try:
            parts = urlsplit(self.sasl_oauthbearer_token_endpoint_url)
            is_good = parts.hostname and parts.port != 0 and not (parts.username or parts.password or parts.fragment)
        except ValueError:
            is_good = False
        if not is_good:
            raise InvalidOptionError(
                "sasl_oauthbearer_token_endpoint_url must be a URL as https://HOST/PATH, without a name or a password"
            )
        for name in ("sasl_login_read_timeout_ms", "sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")
        request = self._request()
        if not request.client_id or not request.client_secret:
            raise InvalidOptionError(
                "a token of an identity provider needs sasl_oauthbearer_client_credentials_client_id and "
                "sasl_oauthbearer_client_credentials_client_secret, or clientId and clientSecret in sasl_jaas_config"
            )

    @property
    def asks_for_tokens(self) -> bool:
        """Whether an identity provider is asked for them over the network."""
        return self.sasl_oauthbearer_token is None and self.sasl_oauthbearer_token_endpoint_url.lower().startswith(
            ("https://", "http://")
        )

    def _request(self) -> "TokenRequest":
        from ottla.client.token_endpoint import TokenRequest
        from ottla.security.jaas_tls import jaas_tls

        options = self._jaas().options if self.sasl_jaas_config else {}
        return TokenRequest(
            url=self.sasl_oauthbearer_token_endpoint_url,
            client_id=self.sasl_oauthbearer_client_credentials_client_id or options.get("clientId", ""),
            client_secret=self.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret", ""),
            scope=self.sasl_oauthbearer_scope or options.get("scope", ""),
            header_urlencode=self.sasl_oauthbearer_header_urlencode,
            tls=jaas_tls(options),
            timeout_ms=self.sasl_login_read_timeout_ms,
            backoff_ms=self.sasl_login_retry_backoff_ms,
            backoff_max_ms=self.sasl_login_retry_backoff_max_ms,
        )

    def _jaas(self) -> JaasEntry:
        try:
            entry = parse_jaas(self.sasl_jaas_config)
        except JaasError as error:
            raise InvalidOptionError(f"sasl_jaas_config {error}") from None
        own = mechanism_of(entry)
        if self.sasl_mechanism and own != self.sasl_mechanism and {own, self.sasl_mechanism} & {PLAIN, OAUTHBEARER}:
            raise InvalidOptionError(f"sasl_jaas_config has {entry.module}, which is not for {self.sasl_mechanism}")
        return entry


@lru_cache(_SALTED_MAX)
def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What follows from a password, remembered: a client logs in to each broker, and again now and then."""
    from ottla.security.scram import MECHANISMS, salted_password

    return salted_password(MECHANISMS[mechanism], password.encode(), salt, iterations)
