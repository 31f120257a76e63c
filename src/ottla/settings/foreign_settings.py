"""Kafka's broker settings that are not supported: those that are ignored with a warning, and those that are refused.

A setting that tunes a mechanism Ottla has in another form, or not at all, does no harm: it is ignored with a
warning, so that a Kafka `server.properties` starts a broker. A setting that promises something the broker would not
keep (access control, another durability) is refused.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.settings.listener_overrides import PREFIX

_THREADS: Final = "Ottla has one event loop and a log I/O thread for each data directory"
_QUORUM: Final = "the store of --metadata keeps the metadata; there is no KRaft quorum"
_OPENSSL: Final = "TLS is OpenSSL's, which has no Java providers"
_BETWEEN_BROKERS: Final = "brokers prove the secret of their cluster to each other"
_METRICS: Final = "there are no Java metrics reporters"
_REPLICATION: Final = "Ottla's brokers use fixed times and limits among themselves"

IGNORED_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alter.log.dirs.replication.quota.": _REPLICATION,
        "auto.include.jmx.reporter": _METRICS,
        "background.threads": _THREADS,
        "broker.id.generation.enable": "give node.id",
        "controlled.shutdown.": _REPLICATION,
        "controller.": _QUORUM,
        "delete.records.purgatory.": "delayed operations are removed when they complete",
        "early.start.listeners": "the ACLs are read before any listener opens",
        "fetch.purgatory.": "delayed operations are removed when they complete",
        "follower.fetch.last.tiered.offset.enable": _REPLICATION,
        "group.coordinator.": _THREADS,
        "initial.broker.registration.timeout.ms": _QUORUM,
        "kafka.metrics.": _METRICS,
        "leader.imbalance.per.broker.": "preferred leaders are elected whenever possible",
        "log.cleaner.io.buffer.": "the cleaner reads 4 MiB at a time and fills its key table to three quarters",
        "log.dir.failure.timeout.ms": _QUORUM,
        "metadata.": _QUORUM,
        "metric.reporters": _METRICS,
        "metrics.": _METRICS,
        "num.io.threads": _THREADS,
        "num.network.threads": _THREADS,
        "num.recovery.threads.per.data.dir": _THREADS,
        "num.replica.alter.log.dirs.threads": _THREADS,
        "offsets.commit.timeout.ms": "a commit waits until its request times out",
        "process.roles": "every broker can become the controller",
        "producer.purgatory.": "delayed operations are removed when they complete",
        "queued.max.requests": "use queued.max.request.bytes",
        "replica.socket.receive.buffer.bytes": "the operating system sizes the buffer automatically",
        "request.timeout.ms": _REPLICATION,
        "sasl.client.": _BETWEEN_BROKERS,
        "sasl.login.": _BETWEEN_BROKERS,
        "sasl.oauthbearer.": _BETWEEN_BROKERS,
        "share.coordinator.": "the share coordinator needs no threads, and prunes its topic every five minutes",
        "socket.connection.setup.timeout.": _REPLICATION,
        "ssl.keymanager.algorithm": _OPENSSL,
        "ssl.provider": _OPENSSL,
        "ssl.secure.random.implementation": _OPENSSL,
        "ssl.trustmanager.algorithm": _OPENSSL,
        "transaction.partition.verification.enable": "partitions are always verified",
        "unstable.": "no unstable APIs are served",
    }
)

_KERBEROS: Final = "Kerberos (GSSAPI) is not supported; use SCRAM-SHA-512 or PLAIN"
_PRINCIPALS: Final = "principals are built as Kafka's DefaultKafkaPrincipalBuilder does"
_CALLBACKS: Final = "Java classes cannot be loaded: users come from SCRAM credentials or a JAAS line"
_TIERED: Final = "there is no tiered storage"
_JAVA: Final = "Java classes cannot be loaded"

REFUSED_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alter.config.policy.class.name": _JAVA,
        "client.quota.callback.": _JAVA,
        "cordoned.log.dirs": "data directories cannot be cordoned",
        "create.topic.policy.class.name": _JAVA,
        "log.local.": _TIERED,
        "offsets.topic.compression.codec": "the offsets topic is not compressed",
        "principal.": _PRINCIPALS,
        "remote.": _TIERED,
        "sasl.": _CALLBACKS,
        "sasl.kerberos.": _KERBEROS,
        "security.providers": _JAVA,
        "ssl.engine.factory.class": _JAVA,
        "transaction.two.phase.commit.enable": "two-phase commit with external coordinators is not supported",
        "zookeeper.": "use --metadata zookeeper://... and metadata.zookeeper.credentials instead",
        "zookeeper.ssl.": "certificates that were withdrawn are not looked for",
    }
)

HARMLESS_VALUES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "offsets.topic.compression.codec": frozenset({"0"}),
        "remote.log.storage.system.enable": frozenset({"false"}),
        "transaction.two.phase.commit.enable": frozenset({"false"}),
        "zookeeper.ssl.crl.enable": frozenset({"false"}),
        "zookeeper.ssl.ocsp.enable": frozenset({"false"}),
    }
)
"""Settings that ask for what happens anyway when they have one of these values, and are refused with any other."""


def ignored_reason(name: str, text: str) -> str | None:
    """Why a setting of Kafka's is ignored; None when it is not."""
    value = text.strip()
    if value in HARMLESS_VALUES.get(name, ()):
        return "this is already the case"
    prefix = _prefix_of(name)
    return IGNORED_PREFIXES.get(prefix)


def refused_reason(name: str) -> str | None:
    """Why a setting of Kafka's is refused; None for one that is unknown or ignored."""
    return REFUSED_PREFIXES.get(_prefix_of(name))


def _prefix_of(name: str) -> str:
    """The longest prefix of either table that a name begins with."""
    setting = _for_all_listeners(name)
    found = [
        prefix
        for prefix in (*IGNORED_PREFIXES, *REFUSED_PREFIXES)
        if setting == prefix or (prefix[-1] == "." and setting.startswith(prefix))
    ]
    return max(found, key=len, default="")


def _for_all_listeners(name: str) -> str:
    """The setting, where it is given for one listener or mechanism alone."""
    if not name.startswith(PREFIX):
        return name
    rest = name[len(PREFIX) :].partition(".")[2]
    return rest if rest.startswith("sasl.") else rest.partition(".")[2] if ".sasl." in rest else rest
