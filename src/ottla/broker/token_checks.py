"""How a listener checks access tokens, by its settings of OAUTHBEARER."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.broker.signing_keys import KeysSource, SigningKeys, SigningKeysError
from ottla.model.sasl import OAUTHBEARER
from ottla.security.access_token import ClaimRules, UnknownKeyError, signed_token, unsigned_token
from ottla.security.jaas_tls import jaas_tls
from ottla.security.oauth_server import BearerToken, TokenError
from ottla.settings.broker_oauth_table import UNSIGNED_CLASS
from ottla.settings.definition import InvalidSettingError
from ottla.settings.jaas import OAUTHBEARER_MODULE, parse_jaas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.runtime.environment import Environment
    from ottla.security.tls_config import TlsConfig
    from ottla.settings.broker_settings import BrokerSettings

JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"


class TokenRules(Struct, frozen=True):
    """What the settings of a listener say."""

    source: KeysSource | None
    """None where nobody signs tokens."""
    claims: ClaimRules


def token_rules(settings: BrokerSettings, listener: str) -> TokenRules:
    """What the settings of a listener say. Raises InvalidSettingError."""

    def text(name: str) -> str | None:
        value = settings.for_listener(listener, name, OAUTHBEARER)
        assert value is None or isinstance(value, str)
        return value

    def number(name: str) -> int:
        value = settings.for_listener(listener, name, OAUTHBEARER)
        assert isinstance(value, int)
        return value

    if text("sasl.server.callback.handler.class") == UNSIGNED_CLASS:
        return TokenRules(None, _unsigned_rules(text("sasl.jaas.config")))
    url, audiences = text(JWKS_URL), settings.for_listener(listener, "sasl.oauthbearer.expected.audience", OAUTHBEARER)
    assert url is not None, "the settings are checked"
    endpoint = "sasl.oauthbearer.jwks.endpoint."
    return TokenRules(
        KeysSource(
            url,
            number(f"{endpoint}refresh.ms"),
            number(f"{endpoint}retry.backoff.ms"),
            number(f"{endpoint}retry.backoff.max.ms"),
            _tls(text("sasl.jaas.config")),
        ),
        ClaimRules(
            audiences=audiences if isinstance(audiences, tuple) else (),
            issuer=text("sasl.oauthbearer.expected.issuer"),
            skew_ms=number("sasl.oauthbearer.clock.skew.seconds") * 1_000,
            user_claim=text("sasl.oauthbearer.sub.claim.name") or "sub",
            scope_claim=text("sasl.oauthbearer.scope.claim.name") or "scope",
        ),
    )


def _tls(line: str | None) -> TlsConfig | None:
    entry = None if line is None else parse_jaas(line)
    return None if entry is None or entry.module != OAUTHBEARER_MODULE else jaas_tls(entry.options)


def _unsigned_rules(line: str | None) -> ClaimRules:
    options = {} if line is None else parse_jaas(line).options
    prefix = "unsecuredValidator"

    def option(name: str, default: str) -> str:
        return options.get(prefix + name, "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdecimal() and len(skew) < 10):
        raise InvalidSettingError(f"sasl.jaas.config: {prefix}AllowableClockSkewMs must be a whole number")
    return ClaimRules(
        skew_ms=int(skew),
        user_claim=option("PrincipalClaimName", "sub"),
        scope_claim=option("ScopeClaimName", "scope"),
        required_scopes=tuple(option("RequiredScope", "").split()),
        is_unsigned=True,
    )


class TokenChecks:
    """Those of all listeners, with the keys that they share. Belongs to the event loop."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._keys: dict[KeysSource, SigningKeys] = {}
        self._has_started = False

    def use(self, rules: Iterable[TokenRules]) -> None:
        """Have the keys that these need, and no others."""
        wanted = {each.source for each in rules if each.source is not None}
        for gone in self._keys.keys() - wanted:
            self._keys.pop(gone).close()
        for source in wanted - self._keys.keys():
            self._keys[source] = keys = SigningKeys(source, self._environment)
            if self._has_started:
                keys.begin()

    def begin(self) -> None:
        """As `start`, where nobody waits: keys are read as soon as they are needed."""
        self._has_started = True

    async def start(self) -> None:
        """Read the keys. Raises InvalidSettingError for a file that has none."""
        self._has_started = True
        for keys in tuple(self._keys.values()):
            try:
                await keys.start()
            except SigningKeysError as error:
                raise InvalidSettingError(f"{JWKS_URL}: {error}") from error

    def check(self, rules: TokenRules, token: str) -> BearerToken:
        """What a token says. Raises TokenError."""
        now_ms = self._environment.clock.now_ms()
        if rules.source is None:
            return unsigned_token(token, rules.claims, now_ms)
        keys = self._keys.get(rules.source)
        if keys is None:
            raise TokenError("the settings of its listener have changed")
        try:
            return signed_token(token, keys.keys, rules.claims, now_ms)
        except UnknownKeyError:
            keys.miss()
            raise
