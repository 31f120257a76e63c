"""Broker settings of Kafka's that are not honoured: which may stand in a file all the same, and which must not.

A setting that tunes a mechanism Ottla has in another form, or not at all, does no harm: it is passed over with a
warning, so that a Kafka `server.properties` starts a broker. A setting that promises something the broker would not
keep (access control, another durability) is refused.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_THREADS: Final = "Ottla has one event loop and a log I/O thread for each data directory"
_QUORUM: Final = "the metadata is kept by the store of --metadata, there is no KRaft quorum"
_NOT_SERVED: Final = "it tunes an API that is not served yet"
_METRICS: Final = "there are no Java metrics reporters"
_REPLICATION: Final = "what brokers ask of each other has times and limits of its own"

IGNORED_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alter.log.dirs.replication.quota.": _REPLICATION,
        "auto.include.jmx.reporter": _METRICS,
        "background.threads": _THREADS,
        "broker.id.generation.enable": "give node.id",
        "connection.failed.authentication.delay.ms": _NOT_SERVED,
        "controlled.shutdown.": _REPLICATION,
        "controller.": _QUORUM,
        "delete.records.purgatory.": "waiting requests are found without a purge",
        "early.start.listeners": "nobody is authorized, so no listener has to wait for it",
        "fetch.purgatory.": "waiting requests are found without a purge",
        "follower.fetch.last.tiered.offset.enable": _REPLICATION,
        "group.coordinator.": _THREADS,
        "initial.broker.registration.timeout.ms": _QUORUM,
        "kafka.metrics.": _METRICS,
        "leader.imbalance.per.broker.": "every leadership that can be given back is, as in Kafka 4",
        "log.cleaner.io.buffer.": "the cleaner reads 4 MiB at a time, and fills three quarters of its table of keys",
        "log.dir.failure.timeout.ms": _QUORUM,
        "metadata.": _QUORUM,
        "metric.reporters": _METRICS,
        "metrics.": _METRICS,
        "num.io.threads": _THREADS,
        "num.network.threads": _THREADS,
        "num.recovery.threads.per.data.dir": _THREADS,
        "num.replica.alter.log.dirs.threads": _THREADS,
        "offsets.commit.timeout.ms": "a commit waits as long as its client does",
        "process.roles": "every broker may be the controller",
        "producer.purgatory.": "waiting requests are found without a purge",
        "queued.max.requests": "queued.max.request.bytes bounds what waits",
        "replica.socket.receive.buffer.bytes": "the system's own size is taken, which grows with the traffic",
        "request.timeout.ms": _REPLICATION,
        "share.": _NOT_SERVED,
        "socket.connection.setup.timeout.": _REPLICATION,
        "transaction.partition.verification.enable": "partitions are always verified",
        "unstable.": "nothing unstable is served",
    }
)

_SECURITY: Final = "connections are neither encrypted nor authenticated yet, and access is not controlled"
_TIERED: Final = "there is no tiered storage"
_JAVA: Final = "Java classes cannot be loaded"

REFUSED_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alter.config.policy.class.name": _JAVA,
        "authorizer.": _SECURITY,
        "client.quota.callback.": _JAVA,
        "connections.max.reauth.ms": _SECURITY,
        "cordoned.log.dirs": "new partitions go to every data directory that is online",
        "create.topic.policy.class.name": _JAVA,
        "delegation.token.": _SECURITY,
        "log.local.": _TIERED,
        "offsets.topic.compression.codec": "committed offsets are kept as they are written",
        "principal.": _SECURITY,
        "remote.": _TIERED,
        "sasl.": _SECURITY,
        "security.providers": _SECURITY,
        "ssl.": _SECURITY,
        "super.users": _SECURITY,
        "transaction.two.phase.commit.enable": "transactions are decided here, in one phase",
        "zookeeper.": "the metadata is kept where --metadata says (zookeeper://...); leave it out",
    }
)

HARMLESS_VALUES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "offsets.topic.compression.codec": frozenset({"0"}),
        "remote.log.storage.system.enable": frozenset({"false"}),
        "security.inter.broker.protocol": frozenset({"PLAINTEXT"}),
        "transaction.two.phase.commit.enable": frozenset({"false"}),
    }
)
"""Settings that ask for what happens anyway when they have one of these values, and are refused with any other."""


def ignored_reason(name: str, text: str) -> str | None:
    """Why a setting of Kafka's may be passed over; None when it may not."""
    value = text.strip()
    if value in HARMLESS_VALUES.get(name, ()):
        return "this is how it is"
    if refused_reason(name) is not None:
        return None
    return _longest(IGNORED_PREFIXES, name)


def refused_reason(name: str) -> str | None:
    """Why a setting of Kafka's must not be given; None for one that is unknown or may be passed over."""
    if name in HARMLESS_VALUES:
        return _longest(REFUSED_PREFIXES, name) or "only PLAINTEXT listeners are supported yet"
    return _longest(REFUSED_PREFIXES, name)


def _longest(prefixes: Mapping[str, str], name: str) -> str | None:
    found = [prefix for prefix in prefixes if name == prefix or (prefix[-1] == "." and name.startswith(prefix))]
    return prefixes[max(found, key=len)] if found else None
