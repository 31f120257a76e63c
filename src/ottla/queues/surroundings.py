"""What the group of a stream needs of the broker around it, to be read as a share group."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.queues.history import History
from ottla.queues.letters import WriteLetters
from ottla.queues.recent_reads import RecentReads
from ottla.queues.shared_partition import SharedPartition


class Surroundings(NamedTuple):
    """`reads` has what was read of logs for others, `history` is what is remembered of records. `on_released` is called
    when there may be something to give out, `on_lost` when another has to be opened in its place.
    """

    reads: RecentReads
    history: History
    on_released: Callable[[SharedPartition], None]
    on_lost: Callable[[SharedPartition], None]
    write_letters: WriteLetters | None = None
