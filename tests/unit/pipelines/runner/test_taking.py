"""What a driver does until it has its checkpoints in the brokers, and whom it tells when it has lost one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.client.errors import BrokerError, BrokerUnreachableError, ClientError
from ottla.model.error_code import ErrorCode
from ottla.pipelines.runner import taking
from ottla.pipelines.runner.checkpoint import CheckpointError
from ottla.pipelines.runner.checkpoint_lease import CheckpointLeases, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable

WANTED = {"c": "/shared/c", "u": "s3://bucket/u"}


class Leases:
    """Leases that fail as they are told, before they are taken."""

    def __init__(self, *errors: ClientError) -> None:
        self._errors = [*errors]
        self.lost: Callable[[str, FencedError], None] | None = None
        self.locked: frozenset[str] = frozenset()
        self.confirmed: list[str] = []

    def take(self, wanted: Any, waits: Any, locked: frozenset[str]) -> None:
        self.locked = locked
        if self._errors:
            raise self._errors.pop(0)

    def keep(self, lost: Callable[[str, FencedError], None]) -> None:
        self.lost = lost

    def confirm(self, name: str) -> None:
        self.confirmed.append(name)


def take(leases: Leases) -> list[str]:
    told: list[str] = []
    taking._take(cast("CheckpointLeases", leases), WANTED, told.append)
    return told


def test_brokers_that_are_away_are_waited_for_and_named_once(monkeypatch):
    monkeypatch.setattr(taking, "_AGAIN_SECONDS", 0)
    away, busy = BrokerUnreachableError("nobody at a:1"), BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere")
    leases = Leases(away, away, busy, away)
    assert take(leases) == ["nobody at a:1", str(busy), "nobody at a:1"]
    # A URL has no lock on a file, so nothing says that a driver of this machine is dead.
    assert leases.locked == {"c"}


def test_brokers_that_refuse_are_not_asked_again():
    refuses = Leases(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not for you"))
    with pytest.raises(CheckpointError, match=r"/shared/c cannot be taken in the brokers.*__ottla_checkpoints"):
        take(refuses)


def test_a_query_whose_checkpoint_is_lost_is_told_before_anybody_listens_and_after():
    taken, leases = taking.Taken(), Leases()
    taken.keep(cast("CheckpointLeases", leases), {"c": "p.a", "d": "p.b"})
    assert leases.lost is not None
    leases.lost("c", FencedError("fenced: early"))
    told: list[tuple[str, str]] = []
    taken.tell(lambda query, error: told.append((query, str(error))))
    leases.lost("d", FencedError("fenced: late"))
    assert told == [("p.a", "fenced: early"), ("p.b", "fenced: late")]
    taken.fence("p.b")()
    assert leases.confirmed == ["d"]
