"""How clients prove who they are: by which mechanisms of SASL, and against what, at each listener.

PLAIN            the passwords of the listener's JAAS line
SCRAM-SHA-...    the credentials in the metadata
OAUTHBEARER      the keys of those who issue tokens
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.broker.delegation_tokens import token_secret
from ottla.metadata.image.image import MetadataImage
from ottla.model.sasl import OAUTHBEARER, PLAIN, TOKEN_AUTH
from ottla.model.scram_credential import SCRAM_TYPES, ScramCredential
from ottla.runtime.environment import Environment
from ottla.security.plain import PlainServer
from ottla.security.sasl_server import SaslServer
from ottla.security.scram import ITERATIONS_MIN, MECHANISMS, base64_of, credential_of
from ottla.security.scram_server import CredentialMissingError, CredentialOf, ScramServer, Vouched
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.jaas import parse_jaas

if TYPE_CHECKING:
    from ottla.broker.token_checks import TokenChecks, TokenRules

NONCE_BYTES: Final = 24
_SALT_BYTES: Final = 16
_TOKEN_CREDENTIALS_MAX: Final = 20_000
_SALT_TEXT: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_NUMBERS: Final = {name: number for number, name in SCRAM_TYPES.items()}


class ListenerLogin(Struct, frozen=True):
    """How clients of one listener log in."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    """Of the users of PLAIN."""
    receive_bytes_max: int
    """The largest request before that."""
    reauth_ms: int
    """After how long they have to do it again; 0 for never."""
    tokens: "TokenRules | None" = None
    """What has to stand in their access tokens; None where there are none."""

    def __repr__(self) -> str:
        """Without the passwords."""
        return f"ListenerLogin({', '.join(self.mechanisms)})"


class _Shape(Struct, frozen=True):
    """What a credential looks like to who has not proved anything."""

    salt_bytes: int = _SALT_BYTES
    iterations: int = ITERATIONS_MIN
    has_text_salt: bool = False
    """As Kafka's tools make it: of digits and lower case letters."""


class Authentication:
    """Belongs to the event loop."""

    def __init__(
        self, settings: BrokerSettings, current_image: Callable[[], MetadataImage], environment: Environment
    ) -> None:
        self._current_image = current_image
        self._environment = environment
        self._rng = rng = environment.rng
        self._tokens: TokenChecks | None = None
        self._has_started = False
        self._token_key = settings.text("delegation.token.secret.key") or ""
        self._token_credentials: dict[tuple[str, str], ScramCredential] = {}
        self._secret = rng.token_bytes(_SALT_BYTES)
        self._shaped: Mapping[str, Mapping[int, ScramCredential]] | None = None
        self._shapes: dict[int, Sequence[_Shape]] = {}
        self.failure_delay_ms = 0
        """How long who could not prove it waits for the answer."""
        self.listeners: Mapping[str, ListenerLogin] = {}
        """The listeners at which clients have to log in, by name."""
        self.configure(settings)

    def use_secret(self, secret: bytes) -> None:
        """What all brokers of the cluster know, in all their lives: users that are not there look alike to all."""
        self._secret = hmac.digest(secret, b"users that are not there", "sha256")

    def configure(self, settings: BrokerSettings) -> None:
        """Apply what is set, to clients that come from now on."""
        self.failure_delay_ms = settings.integer("connection.failed.authentication.delay.ms")
        self.listeners = {
            name: _login_of(settings, name)
            for name, protocol in settings.listeners.protocols.items()
            if protocol.has_sasl
        }
        rules = [login.tokens for login in self.listeners.values() if login.tokens is not None]
        if rules and self._tokens is None:
            from ottla.broker.token_checks import TokenChecks  # only who takes tokens reads it

            self._tokens = TokenChecks(self._environment)
            if self._has_started:
                self._tokens.begin()
        if self._tokens is not None:
            self._tokens.use(rules)

    async def start(self) -> None:
        """Read the keys that sign tokens, before any client comes. Raises InvalidSettingError."""
        self._has_started = True
        if self._tokens is not None:
            await self._tokens.start()

    def server(self, login: ListenerLogin, mechanism: str, complain: Callable[[str], None]) -> SaslServer:
        """The server of one exchange by one of the mechanisms of the listener. `complain` is told what the client is
        not.
        """
        if mechanism == PLAIN:
            return PlainServer(login.passwords)
        if mechanism == OAUTHBEARER:
            from ottla.security.oauth_server import OauthServer

            assert self._tokens is not None
            assert login.tokens is not None
            return OauthServer(partial(self._tokens.check, login.tokens), complain)
        return self.scram_server(mechanism, self.credential_of(mechanism))

    def scram_server(self, mechanism: str, credential_of: CredentialOf) -> ScramServer:
        """One that checks against other credentials."""
        return ScramServer(MECHANISMS[mechanism], credential_of, base64_of(self._rng.token_bytes(NONCE_BYTES)))

    def credential_of(self, mechanism: str) -> CredentialOf:
        """The credentials of users for a mechanism of SCRAM."""
        number = _NUMBERS[mechanism]

        def find(user: str, said: Mapping[str, str]) -> ScramCredential | Vouched:
            if said.get(TOKEN_AUTH, "").lower() == "true":
                return self._token_credential(mechanism, user) or self._nobodys(mechanism, user)
            nobodys = self._nobodys(mechanism, user)  # for all: its time would say who is there
            known = self._current_image().scram_credentials.get(user, {}).get(number)
            return nobodys if known is None else known

        return find

    def _token_credential(self, mechanism: str, token_id: str) -> Vouched | None:
        """What to check who has a delegation token against; None for a token that there is not, or that is over.

        Its secret is a password that nobody chose. Raises CredentialMissingError until it was salted once.
        """
        token = self._current_image().delegation_tokens.get(token_id)
        key = self._token_key
        if token is None or not key or token.is_over(self._environment.clock.now_ms()):
            return None
        credential = self._token_credentials.get((token_id, mechanism))
        if credential is not None:
            return Vouched(credential, token.owner.name, token.expires_ms)

        async def load() -> None:
            password = base64.b64encode(token_secret(key, token_id))
            salt = self._rng.token_bytes(_SALT_BYTES)
            made = await self._environment.tasks.in_thread(
                credential_of, MECHANISMS[mechanism], password, salt, ITERATIONS_MIN
            )
            if len(self._token_credentials) >= _TOKEN_CREDENTIALS_MAX:
                self._token_credentials.clear()
            self._token_credentials[token_id, mechanism] = made

        raise CredentialMissingError(load)

    def _nobodys(self, mechanism: str, user: str) -> ScramCredential:
        """A credential that nobody can prove: who asks cannot tell whether there is such a user.

        What is seen of it, the salt and the iterations, looks like that of one of the users.
        """
        chosen = int.from_bytes(hmac.digest(self._secret, user.encode(), "sha256"))
        shapes = self._shapes_of(_NUMBERS[mechanism])
        shape = shapes[chosen % len(shapes)]
        salt = hashlib.shake_256(self._secret + user.encode()).digest(shape.salt_bytes)
        if shape.has_text_salt:
            salt = bytes(_SALT_TEXT[each % len(_SALT_TEXT)] for each in salt)
        size = hashlib.new(MECHANISMS[mechanism].hash_name).digest_size
        return ScramCredential(salt, shape.iterations, self._rng.token_bytes(size), self._rng.token_bytes(size))

    def _shapes_of(self, number: int) -> Sequence[_Shape]:
        users = self._current_image().scram_credentials
        if users is not self._shaped:
            self._shaped, self._shapes = users, {}
        shapes = self._shapes.get(number)
        if shapes is None:
            found = (each[number] for each in users.values() if number in each)
            shapes = self._shapes[number] = [_shape_of(each) for each in found] or [_Shape()]
        return shapes


def _shape_of(credential: ScramCredential) -> _Shape:
    return _Shape(len(credential.salt), credential.iterations, set(credential.salt) <= set(_SALT_TEXT))


def _login_of(settings: BrokerSettings, listener: str) -> ListenerLogin:
    mechanisms = settings.for_listener(listener, "sasl.enabled.mechanisms")
    line = settings.for_listener(listener, "sasl.jaas.config", PLAIN)
    receive_bytes_max = settings.for_listener(listener, "sasl.server.max.receive.size")
    reauth_ms = settings.for_listener(listener, "connections.max.reauth.ms")
    assert isinstance(mechanisms, tuple)
    assert isinstance(receive_bytes_max, int)
    assert isinstance(reauth_ms, int)
    passwords = parse_jaas(line).users if isinstance(line, str) else {}
    tokens = None
    if OAUTHBEARER in mechanisms:
        from ottla.broker.token_checks import token_rules

        tokens = token_rules(settings, listener)
    return ListenerLogin(mechanisms, passwords, receive_bytes_max, reauth_ms, tokens)
