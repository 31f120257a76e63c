"""Where two replicas part ways, by their leader epochs: decisions only, no I/O (KIP-101, KIP-279, KIP-320, KIP-595).

    leader     epoch 0: 0-39 | epoch 2: 40-90 | epoch 3: 91-
    follower   epoch 0: 0-39 | epoch 1: 40-52                     its last epoch is 1, it fetches from 53

    the leader answers: the newest epoch up to 1 that I know is 0, and it ends at 40
    the follower cuts to the smaller of that and its own end of epoch 0: 40; the next fetch is of epoch 0, and matches

The high watermark never decides a cut: a leader may have lost none of what a follower's says, and a follower may be
behind with it (KIP-101). Nor does the log end of the leader alone, nor its end of an epoch that the follower has not
(KIP-279): a fetch names the epoch of the record before it, so each answer is checked by the next fetch.
"""

from typing import Final, NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.storage.leader_epoch_cache import UNKNOWN_EPOCH, UNKNOWN_OFFSET, EpochEntry, LeaderEpochCache


class EpochEnd(NamedTuple):
    """An epoch and the offset after the last record written in it."""

    epoch: int
    end_offset: int


UNKNOWN_END: Final = EpochEnd(UNKNOWN_EPOCH, UNKNOWN_OFFSET)
"""The epoch is newer than any that is known."""


def leader_epoch_error(leader_epoch: int, named_epoch: int) -> ErrorCode:
    """What a replica at `leader_epoch` says to a request that names `named_epoch`, -1 for none (KIP-320)."""
    if named_epoch < 0 or named_epoch == leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if named_epoch < leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def epoch_end(epochs: LeaderEpochCache, leader_epoch: int, log_end_offset: int, epoch: int) -> EpochEnd:
    """The newest epoch up to `epoch` that a replica knows and where it ends; UNKNOWN_END when it knows of none so new.

    `leader_epoch` is that in which it leads, and begins at its log end before anything is written in it; -1 for a
    follower.
    """
    latest = epochs.latest_epoch
    if 0 <= epoch <= leader_epoch and latest <= epoch:
        written = 0 <= latest < leader_epoch and epoch != leader_epoch
        return EpochEnd(latest if written else epoch, log_end_offset)
    return EpochEnd(*epochs.end_offset(epoch, log_end_offset))


def diverging_epoch(
    epochs: LeaderEpochCache, leader_epoch: int, log_end_offset: int, *, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | None:
    """What a leader answers a fetch from `fetch_offset` whose record before it is of `last_fetched_epoch`.

    None when the leader has that record too; UNKNOWN_END when it knows of no epoch so new.
    """
    if last_fetched_epoch < 0:
        return None
    end = epoch_end(epochs, leader_epoch, log_end_offset, last_fetched_epoch)
    if end.epoch < 0 or end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def truncation_offset(epochs: LeaderEpochCache, log_end_offset: int, diverging: EpochEnd) -> int:
    """The offset to which a follower cuts that was told of a `diverging` epoch, its own end offset at most.

    That is the smaller of the leader's end of the epoch and its own. When it has not the epoch it cuts to its own end
    of the one before, which the next fetch asks about.
    """
    own: EpochEntry = epochs.end_offset(diverging.epoch, log_end_offset)
    if own.start_offset < 0:  # everything here is of older epochs, or of none that is known
        return min(diverging.end_offset, log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.start_offset, log_end_offset)
    return min(own.start_offset, diverging.end_offset, log_end_offset)
