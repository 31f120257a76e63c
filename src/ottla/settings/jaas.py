"""JAAS lines, in which Kafka's settings name a login module and give it options (`sasl.jaas.config`).

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
    `- the module, by its Java class                       |        `- options, quoted where they need to be
                                                           `- the control flag

The class is not loaded: its name says which mechanism the options are for.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ottla.model.sasl import OAUTHBEARER, PLAIN, SCRAM_SHA_512
from ottla.settings.value import SettingValue

PLAIN_MODULE: Final = "PlainLoginModule"
SCRAM_MODULE: Final = "ScramLoginModule"
OAUTHBEARER_MODULE: Final = "OAuthBearerLoginModule"
MODULES: Final = {
    PLAIN_MODULE: "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM_MODULE: "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER_MODULE: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}

USER_PREFIX: Final = "user_"
"""How options begin that name a user of PLAIN: `user_alice="secret"`."""

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""\s*(?://[^\n]*\n|/\*.*?\*/|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<mark>[=;])|(?P<word>[^\s"=;]+))""", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class JaasError(ValueError):
    """A line that cannot be read. The message says what is expected, and repeats no value: it may be a password."""


class JaasEntry(Struct, frozen=True):
    """One login module with its options."""

    module: str
    """The simple name of its class: `PlainLoginModule`."""
    options: Mapping[str, str]

    @property
    def users(self) -> dict[str, str]:
        """The users of PLAIN that it names, with their passwords."""
        return {
            name.removeprefix(USER_PREFIX): password
            for name, password in self.options.items()
            if name.startswith(USER_PREFIX)
        }


def parse_jaas(text: str) -> JaasEntry:
    """The login module of a line. Raises JaasError.

    >>> parse_jaas('a.b.PlainLoginModule required username=alice password="se;cret";').options
    {'username': 'alice', 'password': 'se;cret'}
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise JaasError('must be one login module with its options and end with ";"')
    if (";", True) in tokens[:-1]:
        raise JaasError("must name exactly one login module")
    (module, _), (flag, _), *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise JaasError(f"must have a control flag behind the login module: {', '.join(sorted(_FLAGS))}")
    options: dict[str, str] = {}
    for index in range(0, len(rest), 3):
        if len(rest) < index + 3 or rest[index + 1] != ("=", True) or rest[index][1] or rest[index + 2][1]:
            raise JaasError('must have its options as name="value"')
        options[rest[index][0]] = rest[index + 2][0]
    name = module.rpartition(".")[2]
    if name not in MODULES:
        raise JaasError(f"must name one of the login modules {', '.join(MODULES.values())}")
    return JaasEntry(name, options)


def jaas_line(mechanism: str, username: str, password: str) -> str:
    """The line by which a client logs in with a password; the reverse of `parse_jaas`."""
    module = MODULES[PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE]
    return f"{module} required username={_quoted(username)} password={_quoted(password)};"


def mechanism_of(entry: JaasEntry) -> str:
    """The mechanism that a login module is for, where nothing else says it."""
    return {PLAIN_MODULE: PLAIN, OAUTHBEARER_MODULE: OAUTHBEARER}.get(entry.module, SCRAM_SHA_512)


class JaasLine(Struct, frozen=True):
    """A validator: one login module with its options."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return ': a login module with options, `CLASS required name="value";`'

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        try:
            parse_jaas(value)
        except JaasError as error:
            return str(error)
        return None


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words, and marks, which have True."""
    found: list[tuple[str, bool]] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("has a quote that is not closed")
        position = match.end()
        if match["mark"] is not None:
            found.append((match["mark"], True))
        elif match["quoted"] is not None:
            value = _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), match["quoted"][1:-1])
            found.append((value, False))
        elif match["word"] is not None:
            found.append((match["word"], False))
    return found
