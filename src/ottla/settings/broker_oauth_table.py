"""The broker settings of OAUTHBEARER: who signs tokens, and what has to stand in them (KIP-255, KIP-768, KIP-1139).

They may be set for one listener alone: `listener.name.NAME.oauthbearer.sasl.oauthbearer.jwks.endpoint.url`.
"""

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance
from ottla.settings.validators import NotEmpty, OneOf, Range
from ottla.settings.value import INT_MAX, LONG_MAX, SettingType, SettingValue

_STRING, _INT, _LONG, _LIST = SettingType.STRING, SettingType.INT, SettingType.LONG, SettingType.LIST
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

SIGNED_CLASSES: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""The names of what believes a token that one of the keys has signed: Kafka's, and that of its older releases."""
UNSIGNED_CLASS: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
"""The name of what believes tokens that nobody has signed."""


class KeysUrl(Struct, frozen=True):
    """Where keys are read."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return ": a URL of https, http or file"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        try:
            parts = urlsplit(value)
            is_good = parts.hostname and parts.port != 0 and not parts.username and not parts.password
        except ValueError:
            return "must be a URL"
        if parts.scheme == "file":
            return None if parts.path.startswith("/") and not parts.netloc else "must be file:///PATH"
        if parts.scheme not in ("https", "http") or not is_good:
            return "must be a URL as https://HOST/PATH or file:///PATH, without a name or a password"
        return None


OAUTH_SETTINGS: Final = (
    _setting(
        "sasl.server.callback.handler.class",
        _STRING,
        None,
        OneOf((*SIGNED_CLASSES, UNSIGNED_CLASS)),
        _MEDIUM,
        "How tokens of OAUTHBEARER are checked, by the name of Kafka's class. Without it their signature is checked by "
        "the keys of sasl.oauthbearer.jwks.endpoint.url; tokens that nobody has signed are taken only where the class "
        "for them is named, and prove nothing.",
    ),
    _setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        _STRING,
        None,
        KeysUrl(),
        _MEDIUM,
        "Where the keys are that sign tokens (JWKS): https://HOST/PATH or file:///PATH. A file is read again when it "
        "has changed.",
    ),
    _setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        _LONG,
        "3600000",
        Range(1, LONG_MAX),
        _LOW,
        "How often the keys are read again. A token of an unknown key has them read sooner, ten seconds after the last "
        "time at the earliest.",
    ),
    _setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        _LONG,
        "100",
        Range(1, LONG_MAX),
        _LOW,
        "How long the broker waits before it tries again to read the keys; twice as long each time.",
    ),
    _setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        _LONG,
        "10000",
        Range(1, LONG_MAX),
        _LOW,
        "The longest wait before the broker tries again to read the keys.",
    ),
    _setting(
        "sasl.oauthbearer.expected.audience",
        _LIST,
        None,
        None,
        _LOW,
        "Audiences, one of which must stand in a token. Without it a token that was issued for another service is "
        "taken, too.",
    ),
    _setting(
        "sasl.oauthbearer.expected.issuer",
        _STRING,
        None,
        NotEmpty(),
        _LOW,
        "The issuer that must stand in a token.",
    ),
    _setting(
        "sasl.oauthbearer.clock.skew.seconds",
        _INT,
        "30",
        Range(0, INT_MAX),
        _LOW,
        "How far the clock of who issues tokens may be from that of the broker.",
    ),
    _setting(
        "sasl.oauthbearer.sub.claim.name",
        _STRING,
        "sub",
        NotEmpty(),
        _LOW,
        "The claim of a token that names the user.",
    ),
    _setting(
        "sasl.oauthbearer.scope.claim.name",
        _STRING,
        "scope",
        NotEmpty(),
        _LOW,
        "The claim of a token that has its scopes. They must be well formed; ACLs say what a user may do.",
    ),
)
