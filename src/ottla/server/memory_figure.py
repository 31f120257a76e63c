"""The worst-case memory of a broker, computed from its settings, whatever clients send.

Each part is a limit of one place in the code; docs/limits.md says what it is made of. The prices of objects were
measured and rounded up. What the broker stores because it was asked to (members of groups, committed offsets,
idempotent producers, indexes of the newest segments) comes on top, as it does with every store.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.client_metrics import INSTANCES_MAX
from ottla.broker.look_ups import LOOKED_UP_MAX
from ottla.broker.transaction_gate import UNANSWERED_MAX
from ottla.broker.transaction_gate import WAITING_BYTES as GATE_WAITING_BYTES
from ottla.broker.transaction_gate import WAITING_MAX as GATE_WAITING_MAX
from ottla.gateways.kafka import fetch_session
from ottla.network.config import NetworkConfig
from ottla.network.connection_quotas import ADDRESSES_MAX
from ottla.network.receive_buffer import FREE_BYTES_MAX, SMALLEST
from ottla.network.task_gate import TASK_BYTES_MAX
from ottla.protocol.codec import REQUEST_ELEMENTS_MAX
from ottla.queues.recent_reads import BYTES_MAX as RECENT_READS_BYTES_MAX
from ottla.replication.batch_decompressor import CODEC_BYTES_MAX, OPEN_BYTES_MAX, WAITING_BYTES, WAITING_MAX
from ottla.server.client_metrics_topic import WAITING_BYTES_MAX as METRICS_WAITING_BYTES
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.compaction.log_cleaner import CleanerConfig
from ottla.storage.compaction.log_compaction import PASS_BYTES_MAX
from ottla.storage.index_cache import INDEX_BYTES_MAX
from ottla.storage.producer_room import PRODUCER_BYTES, PRODUCERS_MAX

KIB, MIB = 1 << 10, 1 << 20

PROCESS_BYTES: Final = 48 * MIB
"""The interpreter, the modules and an empty broker."""

CONNECTION_BYTES: Final = 4 * KIB
"""The objects of one connection; an idle one was measured to take 2.2 KiB (`benchmarks/connections.py`)."""

DIRECTORY_BYTES: Final = 64 * KIB
"""A further data directory with its thread; one was measured to take 25 KiB."""

PARTITION_BYTES: Final = 8 * KIB
"""The objects of one partition that was not written to much."""

ELEMENT_BYTES: Final = 2 * KIB
"""One element of a request, decoded, with its part of the answer."""

WATCH_BYTES: Final = KIB
"""One partition of a waiting fetch or of a fetch session."""

RATE_BYTES: Final = KIB + KIB // 2
"""What a client with a quota did lately, its name, and which quota it has."""

INSTANCE_BYTES: Final = KIB
"""What is known of one client instance that pushes its metrics."""

WINDOW_BYTES: Final = 20
"""One window of a rate."""

QUOTA_KEYS: Final = 4
"""Rates of one client: bytes written, bytes read, time, changes of the metadata."""

DECODED_PER_BYTE: Final = 150
"""How much larger than its bytes a decoded request may be: an element of two bytes becomes 300 with its answer."""


class MemoryPart(NamedTuple):
    """What one thing may take, and which settings say so."""

    name: str
    size: int
    of: str


def memory_figure(settings: BrokerSettings, config: NetworkConfig, fetch_watches_max: int) -> list[MemoryPart]:
    """The parts; their sum is the figure."""
    request_max = config.socket_request_max_bytes
    partitions = settings.integer("partitions.per.broker.max")
    cleaner = CleanerConfig.from_settings(settings)
    clients = settings.integer("quota.clients.max")
    waiting = fetch_watches_max + LOOKED_UP_MAX
    directories = len(settings.data_directories)
    return [
        MemoryPart("the process", PROCESS_BYTES, "fixed"),
        MemoryPart("indexes of closed segments", INDEX_BYTES_MAX, "fixed"),
        MemoryPart("requests", config.queued_max_request_bytes + FREE_BYTES_MAX, "queued.max.request.bytes"),
        MemoryPart("one larger request", 5 * request_max, "socket.request.max.bytes"),
        MemoryPart("one decoded request", REQUEST_ELEMENTS_MAX * ELEMENT_BYTES, "131,072 elements"),
        MemoryPart("requests that tasks work on", TASK_BYTES_MAX * DECODED_PER_BYTE, "1 MiB of them at a time"),
        MemoryPart(
            "batches being decompressed",
            OPEN_BYTES_MAX + CODEC_BYTES_MAX + WAITING_MAX * WAITING_BYTES,
            f"{OPEN_BYTES_MAX >> 20} MiB of them at a time, {WAITING_MAX:,} wait",
        ),
        MemoryPart(
            "first batches of transactions",
            (GATE_WAITING_MAX + UNANSWERED_MAX) * GATE_WAITING_BYTES,
            f"{GATE_WAITING_MAX:,} wait",
        ),
        MemoryPart(
            "connections",
            config.max_connections * (CONNECTION_BYTES + SMALLEST),
            f"max.connections={config.max_connections}",
        ),
        MemoryPart("unread responses", config.out_bytes_hard_max * len(settings.listeners.opened), "closed beyond"),
        MemoryPart("waiting fetches", waiting * WATCH_BYTES, f"{waiting:,} partitions"),
        MemoryPart("batches kept for queues", RECENT_READS_BYTES_MAX, "fixed"),
        MemoryPart(
            "fetch sessions", fetch_session.PARTITIONS_MAX * WATCH_BYTES, f"{fetch_session.PARTITIONS_MAX:,} partitions"
        ),
        MemoryPart("idempotent producers", PRODUCERS_MAX * PRODUCER_BYTES, f"{PRODUCERS_MAX:,} of them"),
        MemoryPart("key tables of compaction", cleaner.dedupe_buffer_bytes, "log.cleaner.dedupe.buffer.size"),
        MemoryPart(
            "batches being compacted", cleaner.threads * PASS_BYTES_MAX, f"log.cleaner.threads={cleaner.threads}"
        ),
        MemoryPart(
            "clients with quotas",
            (QUOTA_KEYS * clients + ADDRESSES_MAX) * (RATE_BYTES + WINDOW_BYTES * settings.integer("quota.window.num")),
            f"quota.clients.max={clients}",
        ),
        MemoryPart(
            "client metrics",
            INSTANCES_MAX * INSTANCE_BYTES + METRICS_WAITING_BYTES + settings.integer("telemetry.max.bytes"),
            f"{INSTANCES_MAX:,} client instances",
        ),
        MemoryPart(
            "data directories", (directories - 1) * DIRECTORY_BYTES, f"log.dirs: {directories - 1:,} beside the first"
        ),
        MemoryPart("partitions", partitions * PARTITION_BYTES, f"partitions.per.broker.max={partitions}"),
    ]


def total(parts: list[MemoryPart]) -> int:
    """The figure in bytes."""
    return sum(part.size for part in parts)


def lines(parts: list[MemoryPart]) -> Iterator[str]:
    """The figure as a table for people."""
    for part in parts:
        yield f"{part.size / MIB:8,.0f} MiB  {part.name} ({part.of})"
    yield f"{total(parts) / MIB:8,.0f} MiB  worst-case memory"
