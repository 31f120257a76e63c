from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.replication.truncation import (
    UNKNOWN_END,
    EpochEnd,
    diverging_epoch,
    epoch_end,
    leader_epoch_error,
    truncation_offset,
)
from ottla.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def test_a_request_is_fenced_by_the_epoch_it_names() -> None:
    assert leader_epoch_error(5, -1) is ErrorCode.NONE
    assert leader_epoch_error(5, 5) is ErrorCode.NONE
    assert leader_epoch_error(5, 4) is ErrorCode.FENCED_LEADER_EPOCH
    assert leader_epoch_error(5, 6) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_leaders_epoch_begins_at_its_end_before_anything_is_written_in_it() -> None:
    epochs = cache((0, 0), (2, 40))
    assert epoch_end(epochs, 5, 91, 5) == (5, 91)
    assert epoch_end(epochs, 5, 91, 4) == (2, 91)
    assert epoch_end(epochs, 5, 91, 1) == (0, 40)
    assert epoch_end(epochs, 5, 91, 6) == UNKNOWN_END
    assert epoch_end(cache(), 5, 0, 3) == (3, 0)


def test_a_fetch_that_matches_is_told_of_no_divergence() -> None:
    epochs = cache((0, 0), (2, 40), (3, 91))
    for offset, epoch in ((40, 0), (41, 2), (91, 2), (92, 3), (100, 3), (0, -1)):
        assert diverging_epoch(epochs, 3, 100, fetch_offset=offset, last_fetched_epoch=epoch) is None


def test_a_fetch_after_records_the_leader_has_not_is_told_where_they_begin() -> None:
    epochs = cache((0, 0), (2, 40), (3, 91))
    assert diverging_epoch(epochs, 3, 100, fetch_offset=53, last_fetched_epoch=1) == (0, 40)
    assert diverging_epoch(epochs, 3, 100, fetch_offset=53, last_fetched_epoch=0) == (0, 40)
    assert diverging_epoch(epochs, 3, 100, fetch_offset=101, last_fetched_epoch=3) == (3, 100)
    assert diverging_epoch(epochs, 3, 100, fetch_offset=101, last_fetched_epoch=4) == UNKNOWN_END


def test_a_follower_cuts_to_the_smaller_end_of_the_epoch_both_have() -> None:
    epochs = cache((0, 0), (1, 40))
    assert truncation_offset(epochs, 53, EpochEnd(0, 40)) == 40
    assert truncation_offset(epochs, 53, EpochEnd(0, 30)) == 30
    assert truncation_offset(epochs, 53, EpochEnd(0, 45)) == 40
    assert truncation_offset(epochs, 53, EpochEnd(1, 45)) == 45
    assert truncation_offset(epochs, 53, EpochEnd(1, 99)) == 53


def test_a_follower_without_the_leaders_epoch_cuts_to_its_own_end_of_the_one_before() -> None:
    epochs = cache((0, 0), (3, 40))
    assert truncation_offset(epochs, 53, EpochEnd(2, 50)) == 40
    assert truncation_offset(cache((3, 40)), 53, EpochEnd(2, 50)) == 40
    assert truncation_offset(cache(), 53, EpochEnd(2, 50)) == 50
    assert truncation_offset(cache((0, 0)), 53, EpochEnd(2, 50)) == 50


class Replica:
    """A log as a list of the epochs its records were written in."""

    def __init__(self, records: Sequence[tuple[int, int]]) -> None:
        self.records = list(records)

    @property
    def epochs(self) -> LeaderEpochCache:
        found = LeaderEpochCache()
        for offset, (epoch, _) in enumerate(self.records):
            found.assign(epoch, offset)
        return found


@given(st.data())
def test_replicas_are_equal_after_the_follower_has_cut_and_copied(data: st.DataObject) -> None:
    """Leaders that share a prefix with an earlier log go on with epochs of their own, as elections make them."""
    logs = [Replica([])]
    epoch = 0
    for _ in range(data.draw(st.integers(1, 7))):
        source = data.draw(st.sampled_from(logs))
        kept = data.draw(st.integers(0, len(source.records)))
        epoch += data.draw(st.integers(1, 2))
        mine = [(epoch, len(logs))] * data.draw(st.integers(0, 3))
        logs.append(Replica([*source.records[:kept], *mine]))
    leader, follower = data.draw(st.sampled_from(logs)), data.draw(st.sampled_from(logs))
    common = 0
    while common < min(len(leader.records), len(follower.records)) and (
        leader.records[common] == follower.records[common]
    ):
        common += 1
    leader_epoch = epoch + 1
    for _ in range(20):
        last_epoch = follower.records[-1][0] if follower.records else -1
        end = len(follower.records)
        told = diverging_epoch(
            leader.epochs, leader_epoch, len(leader.records), fetch_offset=end, last_fetched_epoch=last_epoch
        )
        if told is None:
            break
        cut = truncation_offset(follower.epochs, end, told)
        assert cut < end
        assert cut >= common
        del follower.records[cut:]
    assert follower.records == leader.records[: len(follower.records)]
    assert len(follower.records) == common
