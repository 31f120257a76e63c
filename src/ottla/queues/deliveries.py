"""How a share group stands in a partition, in numbers."""

from msgspec import Struct


class Deliveries(Struct, frozen=True):
    """Counts of records, at one moment.

    Records from `start_offset` up to `end_offset` were delivered; `unfinished` of them are not done. Of these
    `in_flight` are held by members, `waiting` are given back and may not be delivered yet, and `returned` are given
    back and may be. `redelivered` were delivered more than once, `deliveries_most` times at most. `accepted` and
    `archived` count what was settled since this broker leads the partition. `oldest_offset` is the first record that is
    not done, -1 for none; `oldest_holder` is the member that holds it.
    """

    start_offset: int
    end_offset: int
    high_watermark: int
    unfinished: int
    in_flight: int
    waiting: int
    returned: int
    redelivered: int
    deliveries_most: int
    accepted: int
    archived: int
    oldest_offset: int
    oldest_deliveries: int
    oldest_holder: str | None
