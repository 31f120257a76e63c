"""Names and passwords of clients whose protocol has no SASL: they are those of SCRAM's users, and of PLAIN's.

A password of SCRAM is as slow to check as its user was made: some milliseconds, in a thread, one at a time, so that
strangers who guess have no more than one thread to work for them. Of each address one waits for it, so that however
many connections guess, a client of another address is the next but one. One that was right is remembered, by a hash
whose key nobody knows, for as long as the user's credential is the same: clients that connect again cost nothing. Wrong
ones always take that time, or who is remembered could be told from who does not exist.
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct

from ottla.metadata.image.image import MetadataImage
from ottla.model.sasl import PLAIN
from ottla.model.scram_credential import SCRAM_TYPES, ScramCredential
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.security.plain import is_same_password
from ottla.security.scram import ITERATIONS_MIN, MECHANISMS, Mechanism, credential_of
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.jaas import parse_jaas

PASSWORD_BYTES_MAX: Final = 1_024
_REMEMBERED_MAX: Final = 1_000
_NUMBERS: Final = {name: number for number, name in SCRAM_TYPES.items()}


class _Right(Struct):
    """A password that was right."""

    credential: ScramCredential
    digest: bytes


class PasswordCheck:
    """Belongs to the event loop."""

    def __init__(self, settings: BrokerSettings, listener: str, rng: Rng, tasks: Tasks) -> None:
        mechanisms = settings.for_listener(listener, "sasl.enabled.mechanisms")
        line = settings.for_listener(listener, "sasl.jaas.config", PLAIN)
        assert isinstance(mechanisms, tuple)
        self._mechanisms = tuple(name for name in MECHANISMS if name in mechanisms)
        has_plain = PLAIN in mechanisms and isinstance(line, str)
        self._passwords: Mapping[str, str] = parse_jaas(line).users if has_plain and isinstance(line, str) else {}
        self._tasks = tasks
        self._secret = rng.token_bytes(32)
        self._right: dict[str, _Right] = {}
        self._one_at_a_time = asyncio.Lock()
        self._one_of_an_address: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def users(self, image: MetadataImage) -> list[str]:
        """Who may log in, in the order of their names."""
        wanted = {_NUMBERS[name] for name in self._mechanisms}
        of_scram = (user for user, known in image.scram_credentials.items() if wanted & known.keys())
        return sorted({*self._passwords, *of_scram})

    def has(self, image: MetadataImage, user: str) -> bool:
        """Whether there is such a user."""
        known = image.scram_credentials.get(user, {})
        return user in self._passwords or any(_NUMBERS[name] in known for name in self._mechanisms)

    async def is_right(
        self, current_image: Callable[[], MetadataImage], user: str, password: bytes, address: str
    ) -> bool:
        """Whether this is the password of the user, which a client at an address says."""
        if len(password) > PASSWORD_BYTES_MAX:
            return False
        plain = self._passwords.get(user)
        if is_same_password(password, plain or "") and plain is not None:
            return True
        digest = hmac.digest(self._secret, password, "sha256")
        mechanism, credential = self._credential_of(current_image(), user)
        right = self._right.get(user)
        if right is not None and right.credential == credential and hmac.compare_digest(right.digest, digest):
            return True
        salt, iterations = b"\0" * 16, ITERATIONS_MIN
        if credential is not None:
            salt, iterations = credential.salt, credential.iterations
        async with self._one_of_an_address.setdefault(address, asyncio.Lock()), self._one_at_a_time:
            made = await self._tasks.in_thread(credential_of, mechanism, password, salt, iterations)
        if credential is None or not hmac.compare_digest(made.stored_key, credential.stored_key):
            return False
        if len(self._right) >= _REMEMBERED_MAX:
            self._right.clear()
        self._right[user] = _Right(credential, digest)
        return True

    def _credential_of(self, image: MetadataImage, user: str) -> tuple[Mechanism, ScramCredential | None]:
        known = image.scram_credentials.get(user, {})
        for name in self._mechanisms:
            if _NUMBERS[name] in known:
                return MECHANISMS[name], known[_NUMBERS[name]]
        return next(iter(MECHANISMS.values())), None
