"""Up to where a log is the one that a delay topic was delivered from."""

from typing import TYPE_CHECKING, cast

import pytest

from ottla.server.delay_buckets import kept_end
from ottla.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache

if TYPE_CHECKING:
    from ottla.storage.log import Log


class FakeLog:
    """Epoch 2 from offset 0 on, 5 from 40 on; up to 60, and 50 when it was opened."""

    log_end_offset = 60
    opened_end_offset = 50
    _epochs = LeaderEpochCache([EpochEntry(2, 0), EpochEntry(5, 40)])

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset(epoch, self.log_end_offset)


@pytest.mark.parametrize(
    ("leader_epoch", "led_before", "end"),
    [
        (2, None, 40),
        (3, None, 40),
        (5, None, 60),
        (5, 5, 50),
        (2, 5, 40),
        (7, None, 60),
        (-1, None, 60),
    ],
)
def test_a_log_is_as_it_was_up_to_where_the_epoch_ends_or_where_it_was_opened(
    leader_epoch: int, led_before: int | None, end: int
) -> None:
    assert kept_end(cast("Log", FakeLog()), leader_epoch, led_before) == end
