"""The topic in which a broker keeps the metrics that clients push (KIP-714), and what stands in its records.

Key: the id of the client instance. Value: OpenTelemetry's `MetricsData`, compressed as the client sent it. Headers, all
text: `compression` (none, gzip, snappy, lz4, zstd), `client_id`, `client_software_name`, `client_software_version`,
`client_source_address`, `client_source_port`, `broker_id`, `terminating` (true for the last push). Read it with any
consumer, or with `ottla client-metrics`.
"""

from collections.abc import Iterable
from typing import Final, Self

from msgspec import Struct

from ottla.model.errors import InvalidInputError

CLIENT_METRICS_TOPIC: Final = "__client_metrics"

SEGMENT_BYTES: Final = 4 << 20
RETENTION_BYTES: Final = 32 << 20
RETENTION_MS: Final = 7 * 24 * 3_600_000
"""With which the topic is made; whoever wants more of it may alter it, or make it before the first push comes."""

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

DECOMPRESSED_BYTES_MAX: Final = 16 << 20
"""What one push may expand to when it is shown."""


class PushedMetrics(Struct, frozen=True):
    """One record of the topic."""

    client_instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int
    broker_id: int
    compression: str
    is_last: bool
    pushed_ms: int
    """When the broker had it, ms since 1970."""
    metrics: bytes

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """As they stand in the record."""
        return (
            ("compression", self.compression.encode()),
            ("client_id", self.client_id.encode()),
            ("client_software_name", self.software_name.encode()),
            ("client_software_version", self.software_version.encode()),
            ("client_source_address", self.address.encode()),
            ("client_source_port", str(self.port).encode()),
            ("broker_id", str(self.broker_id).encode()),
            ("terminating", b"true" if self.is_last else b"false"),
        )

    @classmethod
    def of_record(
        cls,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]],
        timestamp_ms: int,
    ) -> Self:
        """Read a record. Raises InvalidInputError for one that a broker has not written."""
        found = {name: (text or b"").decode(errors="replace") for name, text in headers}
        try:
            return cls(
                client_instance_id=(key or b"").decode(errors="replace"),
                client_id=found["client_id"],
                software_name=found["client_software_name"],
                software_version=found["client_software_version"],
                address=found["client_source_address"],
                port=int(found["client_source_port"]),
                broker_id=int(found["broker_id"]),
                compression=CODEC_NAMES[CODEC_NAMES.index(found["compression"])],
                is_last=found["terminating"] == "true",
                pushed_ms=timestamp_ms,
                metrics=value or b"",
            )
        except (KeyError, ValueError) as error:
            raise InvalidInputError(f"a record of {CLIENT_METRICS_TOPIC} is not a broker's: {error}") from None
