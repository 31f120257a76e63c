"""Settings of the client by Kafka's names: `-X key=value`, and files as Kafka's tools read them (`--command-config`).

    -X on the command line  over  the file  over  the options of the command that have a default

A key that the command does not have is a mistake on the command line. In a file, which may be written for other
programs too, it is ignored with a warning. What would have the client do something it cannot is refused anywhere.
"""

import difflib
from collections.abc import Mapping
from enum import Enum, auto
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click

from ottla.cli.failure import MistakesError
from ottla.cli.settings_file import read_settings_file
from ottla.client.consuming.consumer_options import GroupProtocol, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.producing.produce import Acks


class Kind(Enum):
    """Which commands have a key."""

    ANY = auto()
    PRODUCER = auto()
    CONSUMER = auto()


class ClientKey(NamedTuple):
    """A key and the option of the client that it is."""

    option: str
    kind: Kind = Kind.ANY
    choices: Mapping[str, int | str | bool] | None = None
    """The words it takes and what they mean; None for a whole number."""
    is_text: bool = False


_BOOLEANS: Final = MappingProxyType({"true": True, "false": False})
_CODECS: Final = MappingProxyType({"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4})
_ACKS: Final = MappingProxyType({"all": -1, "-1": -1, "1": 1, "0": 0})
_ISOLATION: Final = MappingProxyType({"read_uncommitted": 0, "read_committed": 1})
_RESETS: Final = MappingProxyType({word: word for word in ("earliest", "latest", "none")})
_GROUP_PROTOCOLS: Final = MappingProxyType({word: word for word in ("classic", "consumer")})

_TLS: Final = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
_CLIENT_CREDENTIALS: Final = (
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)
_OF_JAVA: Final = (
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
"""Which of Java's own ways to do TLS is used; in a file they say nothing to this client."""

BOOTSTRAP_KEY: Final = "bootstrap.servers"

KEYS: Final[Mapping[str, ClientKey]] = MappingProxyType(
    {
        "client.id": ClientKey("client_id", is_text=True),
        "default.api.timeout.ms": ClientKey("api_timeout_ms"),
        "metadata.max.age.ms": ClientKey("metadata_max_age_ms"),
        "request.timeout.ms": ClientKey("request_timeout_ms"),
        "retry.backoff.max.ms": ClientKey("retry_backoff_max_ms"),
        "retry.backoff.ms": ClientKey("retry_backoff_ms"),
        "sasl.jaas.config": ClientKey("sasl_jaas_config", is_text=True),
        "sasl.mechanism": ClientKey("sasl_mechanism", is_text=True),
        "sasl.login.read.timeout.ms": ClientKey("sasl_login_read_timeout_ms"),
        "sasl.login.retry.backoff.max.ms": ClientKey("sasl_login_retry_backoff_max_ms"),
        "sasl.login.retry.backoff.ms": ClientKey("sasl_login_retry_backoff_ms"),
        **{name: ClientKey(name.replace(".", "_"), is_text=True) for name in _CLIENT_CREDENTIALS},
        "sasl.oauthbearer.header.urlencode": ClientKey("sasl_oauthbearer_header_urlencode", choices=_BOOLEANS),
        "sasl.oauthbearer.token.endpoint.url": ClientKey("sasl_oauthbearer_token_endpoint_url", is_text=True),
        "sasl.password": ClientKey("sasl_password", is_text=True),
        "sasl.username": ClientKey("sasl_username", is_text=True),
        "security.protocol": ClientKey("security_protocol", is_text=True),
        "socket.connection.setup.timeout.ms": ClientKey("connect_timeout_ms"),
        **{name: ClientKey(name.replace(".", "_"), is_text=True) for name in _TLS},
        "acks": ClientKey("acks", Kind.PRODUCER, _ACKS),
        "batch.size": ClientKey("batch_bytes", Kind.PRODUCER),
        "buffer.memory": ClientKey("buffer_bytes", Kind.PRODUCER),
        "compression.type": ClientKey("compression", Kind.PRODUCER, _CODECS),
        "delivery.timeout.ms": ClientKey("delivery_timeout_ms", Kind.PRODUCER),
        "enable.idempotence": ClientKey("idempotent", Kind.PRODUCER, _BOOLEANS),
        "linger.ms": ClientKey("linger_ms", Kind.PRODUCER),
        "max.block.ms": ClientKey("max_block_ms", Kind.PRODUCER),
        "max.in.flight.requests.per.connection": ClientKey("in_flight_requests_max", Kind.PRODUCER),
        "max.request.size": ClientKey("request_bytes_max", Kind.PRODUCER),
        "auto.offset.reset": ClientKey("auto_offset_reset", Kind.CONSUMER, _RESETS),
        "fetch.max.bytes": ClientKey("fetch_max_bytes", Kind.CONSUMER),
        "fetch.max.wait.ms": ClientKey("fetch_max_wait_ms", Kind.CONSUMER),
        "fetch.min.bytes": ClientKey("fetch_min_bytes", Kind.CONSUMER),
        "group.instance.id": ClientKey("group_instance_id", Kind.CONSUMER, is_text=True),
        "group.protocol": ClientKey("group_protocol", Kind.CONSUMER, _GROUP_PROTOCOLS),
        "group.remote.assignor": ClientKey("group_remote_assignor", Kind.CONSUMER, is_text=True),
        "heartbeat.interval.ms": ClientKey("heartbeat_interval_ms", Kind.CONSUMER),
        "isolation.level": ClientKey("isolation", Kind.CONSUMER, _ISOLATION),
        "max.partition.fetch.bytes": ClientKey("partition_fetch_bytes_max", Kind.CONSUMER),
        "max.poll.interval.ms": ClientKey("max_poll_interval_ms", Kind.CONSUMER),
        "session.timeout.ms": ClientKey("session_timeout_ms", Kind.CONSUMER),
    }
)
"""The keys that are known, by Kafka's name."""

_META: Final = "ottla.client"


class ClientProperties(NamedTuple):
    """What was given, and the place of each that is in a file: `client.properties:3`."""

    values: dict[str, str]
    places: dict[str, str]
    mistakes: dict[str, str]
    """What is wrong with the values that were looked at, by their keys."""


def remember_settings(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> None:
    """The callback of `-X`."""
    del param
    properties = _given(ctx)
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        properties.values[key.strip()] = value.strip()
        properties.places.pop(key.strip(), None)


def remember_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """The callback of `--command-config`. Raises MistakesError for lines that cannot be read, and OSError."""
    del param
    if path is None:
        return
    properties = _given(ctx)
    file = read_settings_file(path)
    if file.mistakes:
        raise MistakesError(file.mistakes)
    for key, setting in file.settings.items():
        if key not in properties.values:
            properties.values[key] = setting.value
            properties.places[key] = setting.place


def options_of(kind: Kind) -> dict[str, Any]:
    """The options of a client or, besides, of a producer or a consumer that were given by their keys.

    To be asked for each kind that the command has, `Kind.ANY` last: then it is said which keys it does not have.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return {}
    properties = _given(ctx)
    options: dict[str, Any] = {}
    for key, text in tuple(properties.values.items()):
        known = KEYS.get(key)
        if known is not None and known.kind is kind:
            try:
                options[known.option] = _parse(key, known, text)
            except ValueError as error:
                properties.mistakes[key] = str(error)
            del properties.values[key]
    if kind is Kind.ANY:
        _complain(properties)
    return options


def bootstrap_of(ctx: click.Context | None, bootstrap: str) -> str:
    """Where to begin: a property, unless the command line or the environment says it."""
    if ctx is None:
        return bootstrap
    wanted = _given(ctx).values.pop(BOOTSTRAP_KEY, None)
    if wanted is None or ctx.get_parameter_source("bootstrap") is click.core.ParameterSource.COMMANDLINE:
        return bootstrap
    return wanted


def _given(ctx: click.Context) -> ClientProperties:
    properties = ctx.meta.setdefault(_META, ClientProperties({}, {}, {}))
    assert isinstance(properties, ClientProperties)
    return properties


def _parse(key: str, known: ClientKey, text: str) -> int | str | bool:
    if known.is_text:
        return text
    if known.choices is not None:
        if text.lower() not in known.choices:
            raise ValueError(f"{key}={text} is refused: it must be {' or '.join(known.choices)}")
        return known.choices[text.lower()]
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise ValueError(f"{key}={text} is refused: it must be a whole number")
    return int(text)


def _complain(properties: ClientProperties) -> None:
    """Of what is wrong, and of what is left. Raises MistakesError with all of it."""
    mistakes = properties.mistakes
    for key in properties.values:
        if key in _OF_JAVA and key in properties.places:
            continue
        if key.startswith(("security.", "sasl.", "ssl.")):
            mistakes[key] = f"{key} is not supported by this client"
        elif key not in properties.places:
            mistakes[key] = f"{key} {_unknown(key)}"
        else:
            click.echo(f"ottla: {properties.places[key]}: {key} is ignored: this command has no such key", err=True)
    properties.values.clear()
    if mistakes:
        order = {key: number for number, key in enumerate(properties.places)}
        keys = sorted(mistakes, key=lambda key: order.get(key, len(order)))
        raise MistakesError([f"{properties.places.get(key, '-X')}: {mistakes[key]}" for key in keys])


def _unknown(key: str) -> str:
    if key in KEYS:
        return "is not a key of this command"
    similar = difflib.get_close_matches(key, KEYS, n=1)
    return f"is not a key; did you mean {similar[0]}?" if similar else f"is not a key; there are {', '.join(KEYS)}"


_FLAGS: Final = MappingProxyType(
    {
        "acks": "acks",
        "compression": "compression",
        "linger_ms": "linger_ms",
        "request_bytes_max": "max_request_bytes",
        "delivery_timeout_ms": "timeout_ms",
        "isolation": "read_committed",
        "auto_offset_reset": "offset",
    }
)
"""The parameter of the command that says the same as an option; who gives both means the parameter."""


def over_options(kind: Kind, **options: Any) -> dict[str, Any]:
    """The options of a producer or consumer: what properties say over `options`, but for flags that were given."""
    ctx = click.get_current_context()
    given = {
        name: value
        for name, value in options_of(kind).items()
        if ctx.get_parameter_source(_FLAGS.get(name, "")) is not click.core.ParameterSource.COMMANDLINE
    }
    if "acks" in given:
        given["acks"] = Acks(given["acks"])
    if "isolation" in given:
        given["isolation"] = IsolationLevel(given["isolation"])
    if "auto_offset_reset" in given:
        given["auto_offset_reset"] = OffsetReset(given["auto_offset_reset"])
    if "group_protocol" in given:
        given["group_protocol"] = GroupProtocol(given["group_protocol"])
    return {**options, **given}
