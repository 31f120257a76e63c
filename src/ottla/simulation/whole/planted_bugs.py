"""Bugs that others have had, planted in the brokers themselves: whole runs have to find them, too."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.partition import ACKS_LEADER
from ottla.simulation.whole.log_io import SimulatedLogIo


def _leader_alone(_in_sync: InSyncReplicas, _before: int, leader_end_offset: int, *_: Any) -> int:
    return leader_end_offset


def _nothing(*_: Any, **__: Any) -> None:
    return None


PLANTED: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "ack-before-isr": lambda: patch.object(InSyncReplicas, "high_watermark", _leader_alone),
    "ack-before-sync": lambda: patch.object(SimulatedLogIo, "_sync", _nothing),
    "coordinator-early": lambda: patch("ottla.coordination.shard_log.ACKS_ALL", ACKS_LEADER),
    "no-epoch-check": lambda: patch("ottla.broker.replica_reader.diverging_epoch", _nothing),
}
"""By the names that they have in `ottla.simulation.planted_bugs`, as what plants them."""


def planted(name: str | None) -> AbstractContextManager[Any]:
    """Has a bug as long as it is entered; None for none. Raises KeyError."""
    return nullcontext() if name is None else PLANTED[name]()
