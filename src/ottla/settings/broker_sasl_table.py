"""The broker settings of SASL and of authorization.

Those that begin with sasl., and connections.max.reauth.ms, may be set for one listener alone:
`listener.name.NAME.sasl.enabled.mechanisms`, and `listener.name.NAME.MECHANISM.sasl.jaas.config`.
"""

from typing import Final

from msgspec import Struct

from ottla.model.sasl import GSSAPI, SASL_MECHANISMS, SCRAM_SHA_512
from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance, UpdateMode
from ottla.settings.jaas import JaasLine
from ottla.settings.validators import NotEmpty, OneOf, Range
from ottla.settings.value import INT_MAX, LONG_MAX, SettingType, SettingValue

_BOOLEAN, _STRING, _INT, _LONG, _LIST, _PASSWORD = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.LIST,
    SettingType.PASSWORD,
)
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

AUTHORIZER_CLASSES: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "StandardAuthorizer",
)
"""The names of the authorizer, which are all of one thing: Kafka's, that of its older releases, and the short one."""


class Mechanisms(Struct, frozen=True):
    """Mechanisms of SASL that are served."""

    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return f": {' or '.join(self.choices)}"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        items = value if isinstance(value, tuple) else (value,)
        if not items:
            return f"must name at least one of: {', '.join(self.choices)}"
        if GSSAPI in items:
            return f"must not be {GSSAPI}: Kerberos is not supported; there are {', '.join(self.choices)}"
        return OneOf(self.choices).complaint(value)


class PrincipalList(Struct, frozen=True):
    """Principals with semicolons between them, since a name may have a comma."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return ": TYPE:NAME, separated by semicolons"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        wrong = any(":" not in each for each in value.split(";") if each.strip())
        return "must be principals as User:name, separated by semicolons" if wrong else None


SASL_SETTINGS: Final = (
    _setting(
        "sasl.enabled.mechanisms",
        _LIST,
        ",".join(SASL_MECHANISMS[:2]),
        Mechanisms(SASL_MECHANISMS),
        _MEDIUM,
        "The mechanisms by which clients of a SASL_PLAINTEXT or SASL_SSL listener may log in.",
        UpdateMode.PER_BROKER,
    ),
    _setting(
        "sasl.jaas.config",
        _PASSWORD,
        None,
        JaasLine(),
        _MEDIUM,
        "The users of PLAIN, as a JAAS line with user_NAME=PASSWORD. Give it for a listener and a mechanism: "
        "listener.name.NAME.plain.sasl.jaas.config.",
        UpdateMode.PER_BROKER,
    ),
    _setting(
        "sasl.mechanism.inter.broker.protocol",
        _STRING,
        SCRAM_SHA_512,
        Mechanisms(SASL_MECHANISMS),
        _MEDIUM,
        "Accepted for Kafka's property files. Brokers always prove the secret of their cluster to each other, by "
        "SCRAM-SHA-512, on every kind of listener.",
    ),
    _setting(
        "sasl.server.max.receive.size",
        _INT,
        "524288",
        Range(1_024, INT_MAX),
        _MEDIUM,
        "The largest request of a client that has not logged in yet, in bytes.",
    ),
    _setting(
        "sasl.scram.users.file",
        _STRING,
        None,
        NotEmpty(),
        _MEDIUM,
        "A file with the first SCRAM users, one a line: SCRAM-SHA-512=[name=alice,password=secret]. It is read while "
        "the cluster has no SCRAM user; only its owner may be able to open it. The variable OTTLA_SCRAM_USERS may have "
        "the same lines.",
    ),
    _setting(
        "connections.max.reauth.ms",
        _LONG,
        "0",
        Range(0, LONG_MAX),
        _MEDIUM,
        "How long a client may use a connection before it has to log in again (KIP-368); 0 for as long as it likes.",
    ),
    _setting(
        "connection.failed.authentication.delay.ms",
        _INT,
        "100",
        Range(0, INT_MAX),
        _LOW,
        "How long a client whose login failed waits for the answer, after which its connection is closed.",
    ),
    _setting(
        "authorizer.class.name",
        _STRING,
        "",
        OneOf((*AUTHORIZER_CLASSES, "")),
        _LOW,
        "The authorizer, by the name of Kafka's class; empty for none: then everybody may do everything.",
    ),
    _setting(
        "super.users",
        _STRING,
        "",
        PrincipalList(),
        _MEDIUM,
        "Who may do everything whatever the ACLs say: User:admin;User:ops.",
    ),
    _setting(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        "false",
        None,
        _MEDIUM,
        "Whether everybody may use a resource that no ACL names.",
    ),
)
