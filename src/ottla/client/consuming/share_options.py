"""How a share consumer acquires records, and how it acknowledges them (KIP-932)."""

from enum import IntEnum, StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from ottla.client.arguments import check_kinds, member_of, text
from ottla.client.errors import InvalidOptionError

GAP: Final = 0
"""On the wire: an acquired offset without a record, such as a transaction marker. Only the client uses it."""


class AcknowledgeType(IntEnum):
    """What happens to an acquired record."""

    ACCEPT = 1
    """It is done."""
    RELEASE = 2
    """Another delivery may succeed: any member gets it again."""
    REJECT = 3
    """It is never delivered again."""
    RENEW = 4
    """It needs more time: it stays locked for another lock duration, and the next poll returns it again (KIP-1222)."""


class AcknowledgementMode(StrEnum):
    """Who acknowledges records (`share.acknowledgement.mode`)."""

    IMPLICIT = "implicit"
    """The next `poll` or `commit` accepts what the last `poll` returned."""
    EXPLICIT = "explicit"
    """The program acknowledges each record before the next `poll`."""


class AcquireMode(IntEnum):
    """How many records a broker acquires (`share.acquire.mode`, KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """Whole batches, so somewhat more than `max_poll_records`."""
    RECORD_LIMIT = 1
    """At most `max_poll_records`."""


class ShareConsumerOptions(Struct, frozen=True):
    """Named as Kafka's settings of share consumers where those exist (`max_poll_records` is `max.poll.records`).

    Where a new group begins, how long locks last and how often a record is delivered are settings of the group at the
    broker: `ottla config set --group NAME share.auto.offset.reset=earliest`.
    """

    group_id: str
    acknowledgement_mode: AcknowledgementMode = AcknowledgementMode.IMPLICIT
    acquire_mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    max_poll_records: int = 500
    """Records of one `poll`."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    decompressed_bytes_max: int = 512 * 1024 * 1024
    """The decompressed size of one response of one partition, against batches that expand without limit."""
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for this long leaves its group until the next poll."""
    rack: str = ""

    def __post_init__(self) -> None:
        mode = member_of(AcknowledgementMode, "acknowledgement_mode", self.acknowledgement_mode)
        force_setattr(self, "acknowledgement_mode", mode)
        force_setattr(self, "acquire_mode", member_of(AcquireMode, "acquire_mode", self.acquire_mode))
        text("group_id", self.group_id)
        check_kinds(self, wide=("decompressed_bytes_max",))
        for name in ("max_poll_records", "fetch_max_bytes", "decompressed_bytes_max", "max_poll_interval_ms"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")
