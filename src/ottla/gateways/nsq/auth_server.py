"""What an auth server says of the secret of a client, as nsqd asks it (https://nsq.io/components/nsqd.html#auth).

```
GET /auth?common_name=&remote_ip=10.0.0.7&secret=s3cret&tls=false
{"ttl": 3600, "identity": "worker", "identity_url": "",
 "authorizations": [{"topic": "clicks.*", "channels": ["archive"], "permissions": ["subscribe", "publish"]}]}
```

Topics and channels are regular expressions that match anywhere in a name, as Go's do.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode, urlsplit

import h11
import msgspec
from msgspec import Struct

from ottla.native import TopicPattern
from ottla.network.http_get import http_get
from ottla.runtime.turns import next_turn
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import parse_host_port

logger = logging.getLogger(__name__)

TIMEOUT_MS: Final = 5_000
"""How long a server may take, as with nsqd."""
SECRET_BYTES_MAX: Final = 16 * 1024
"""A longer secret is refused; no server takes a longer path."""
QUERIES_MAX: Final = 64
"""So many questions are under way at once, whatever clients do."""
ANSWER_BYTES_MAX: Final = 192 * 1024
"""A longer answer is none: to read one takes up to 9 ms."""
EXPRESSIONS_MAX: Final = 1_000
"""Expressions of one answer: a compiled one takes up to 256 KiB."""
COMPILED_MAX: Final = 1_000
"""Expressions that are kept compiled, for clients that may do the same."""
DECISIONS_MAX: Final = 1_000
"""What is remembered of names that one client asked for."""
PERMISSIONS: Final = frozenset({"subscribe", "publish"})


class AuthUnavailableError(Exception):
    """No auth server gave an answer that can be used."""


class _Authorization(Struct):
    topic: str | None = None
    channels: list[str] | None = None
    permissions: list[str] | None = None


class _Answer(Struct):
    ttl: int | None = None
    identity: str | None = None
    identity_url: str | None = None
    authorizations: list[_Authorization] | None = None


class Authorization(Struct, frozen=True):
    """What may be done with some topics."""

    topic: TopicPattern
    channels: tuple[TopicPattern, ...]
    permissions: frozenset[str]

    def allows(self, topic: str, channel: str) -> bool:
        """Whether a channel may be read; with an empty one, whether a topic may be written to."""
        if ("subscribe" if channel else "publish") not in self.permissions:
            return False
        return bool(self.topic.matching([topic])) and any(each.matching([channel]) for each in self.channels)


class Authorizations:
    """An answer, until it expires."""

    def __init__(self, identity: str, identity_url: str, ttl_s: int, rules: Sequence[Authorization]) -> None:
        self.identity = identity
        self.identity_url = identity_url
        self.ttl_s = ttl_s
        self.count = len(rules)
        self._rules = tuple(rules)
        self._decisions: dict[tuple[str, str], bool] = {}

    def allows(self, topic: str, channel: str) -> bool:
        """Whether any of its rules does."""
        decision = self._decisions.get((topic, channel))
        if decision is None:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            decision = any(each.allows(topic, channel) for each in self._rules)
            self._decisions[topic, channel] = decision
        return decision


class AuthServer(Struct, frozen=True):
    """Where an auth server is asked."""

    host: str
    port: int
    path: str
    has_tls: bool = False

    def __str__(self) -> str:
        return f"{'https' if self.has_tls else 'http'}://{self.host}:{self.port}{self.path}"


def parse_auth_server(text: str) -> AuthServer:
    """Read `host:port`, whose path is /auth, or a URL. Raises InvalidSettingError.

    >>> str(parse_auth_server("127.0.0.1:4181")), str(parse_auth_server("https://auth.example/nsq"))
    ('http://127.0.0.1:4181/auth', 'https://auth.example:443/nsq')
    """
    if "@" in text:  # whoever may see the settings would see the password
        raise InvalidSettingError("nsq.auth.http.addresses has a name or a password: servers are asked without")
    if "://" not in text:
        return AuthServer(*parse_host_port(text), "/auth")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise InvalidSettingError(f"{text!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.hostname or url.query:
        raise InvalidSettingError(
            f"{text!r} is no address of an auth server: write it as host:port or http://host/path"
        )
    has_tls = url.scheme == "https"
    return AuthServer(url.hostname, port or (443 if has_tls else 80), url.path or "/", has_tls)


class AuthServers:
    """The servers of a broker, which know the same. Belongs to the event loop."""

    def __init__(self, servers: Sequence[AuthServer], root_ca: str, choose: Callable[[int], int]) -> None:
        """`root_ca` is a file with the authorities that servers with TLS are known by, empty for those of the system.
        `choose` gives a number below another, by chance. Raises OSError, ssl.SSLError.
        """
        self._servers = tuple(servers)
        self._choose = choose
        self._tls: ssl.SSLContext | None = None
        if any(each.has_tls for each in servers):
            self._tls = ssl.create_default_context(cafile=root_ca or None)
        self._turn = asyncio.Semaphore(QUERIES_MAX)

    async def ask(self, secret: bytes, remote_ip: str, *, has_tls: bool, common_name: str) -> Authorizations:
        """What the first of them that answers says of a client. Raises AuthUnavailableError."""
        if len(secret) > SECRET_BYTES_MAX:
            raise AuthUnavailableError(f"the secret has {len(secret)} bytes, at most {SECRET_BYTES_MAX} can be")
        said = {"common_name": common_name, "remote_ip": remote_ip, "secret": secret, "tls": str(has_tls).lower()}
        query = urlencode(said)
        first, failures = self._choose(len(self._servers)), []
        async with self._turn:
            for number in range(len(self._servers)):
                server = self._servers[(first + number) % len(self._servers)]
                try:
                    async with asyncio.timeout(TIMEOUT_MS / 1000):
                        tls = self._tls if server.has_tls else None
                        answer = await http_get(
                            server.host, server.port, f"{server.path}?{query}", tls, ANSWER_BYTES_MAX
                        )
                        return await _authorizations(answer)
                except (OSError, TimeoutError, h11.ProtocolError, ValueError) as error:
                    failures.append(f"{server}: {error or 'no answer in time'}")
        raise AuthUnavailableError("; ".join(failures))


async def _authorizations(body: bytes) -> Authorizations:
    """What a body says; one expression is compiled in a turn. Raises ValueError."""
    answer = msgspec.json.decode(body, type=_Answer)
    if answer.ttl is None or answer.ttl <= 0:
        raise ValueError(f"its ttl is {answer.ttl}, and must be above 0")
    said = answer.authorizations or []
    if sum(1 + len(each.channels or ()) for each in said) > EXPRESSIONS_MAX:
        raise ValueError(f"it has more than {EXPRESSIONS_MAX} expressions")
    rules = []
    for each in said:
        topic = await _anywhere(each.topic or "")
        channels = tuple([await _anywhere(channel) for channel in each.channels or ()])
        rules.append(Authorization(topic, channels, _permissions(each.permissions or ())))
    return Authorizations(answer.identity or "", answer.identity_url or "", answer.ttl, rules)


def _permissions(names: Sequence[str]) -> frozenset[str]:
    unknown = next((name for name in names if name not in PERMISSIONS), None)
    if unknown is not None:
        raise ValueError(f"there is no permission {unknown!r}")
    return frozenset(names)


async def _anywhere(expression: str) -> TopicPattern:
    """One that matches anywhere in a name. Raises ValueError."""
    await next_turn()
    return _compiled(expression)


@lru_cache(COMPILED_MAX)
def _compiled(expression: str) -> TopicPattern:
    TopicPattern(expression)  # by itself, so that `a)|(b` does not become one below
    return TopicPattern(f"(?s:.*)(?:{expression})(?s:.*)")
