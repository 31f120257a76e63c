"""How a client logs in: Kafka's `sasl.` settings, with underscores.

    ClientOptions.of("kafka.example:9092", security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512",
                     sasl_username="anna", sasl_password=password)

A JAAS line of Kafka's says the same: `sasl_jaas_config`. With OAUTHBEARER the client shows a token, which it asks for
whenever it logs in: of `sasl_oauthbearer_token`, a function, or of a file,
`sasl_oauthbearer_token_endpoint_url="file:///run/secrets/token"`.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ottla.client.arguments import check_kinds, function
from ottla.client.errors import InvalidOptionError
from ottla.model.sasl import GSSAPI, OAUTHBEARER, PLAIN, SASL_MECHANISMS, SCRAM_SHA_512, TOKEN_AUTH
from ottla.settings.jaas import JaasEntry, JaasError, mechanism_of, parse_jaas

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
    """A file with the token, `file:///PATH`. It is read at each login: whatever renews the token writes a new one."""
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
            raise InvalidOptionError("a listener with SASL needs sasl_username and sasl_password, or sasl_jaas_config")

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
        """The token to log in with now. Raises InvalidOptionError where there is none."""
        if self.sasl_oauthbearer_token is not None:
            token = self.sasl_oauthbearer_token()
            if not isinstance(token, str):
                raise InvalidOptionError("sasl_oauthbearer_token must return a string")
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
        elif not self.sasl_oauthbearer_token_endpoint_url.startswith("file:///"):
            raise InvalidOptionError(
                "sasl_oauthbearer_token_endpoint_url must be file:///PATH: this client asks no service for tokens"
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
