"""The lease of a transactional id, which a driver takes when a write is planned, before any task starts.

A driver takes the id once and keeps it for all its batches. A later driver takes it over, and the earlier one never
takes it back. Otherwise both would fence each other without end, each time a supervisor restarts them.

```
 nobody, or a driver that is not here any more --> announced --> producer of the id --> written down as the owner
 this driver, with the epoch that it left -----------------------------------------------> goes on
 this driver, with another epoch or an open transaction (a batch that failed) --> announced --> producer --> ...
 this driver, taken over before ---------------------------------------------------------> refused, for good
```
"""

from dataclasses import dataclass, replace
from typing import Protocol

from ottla.client.admin.transaction_admin import TransactionDescription
from ottla.client.producing.producer_batch import Identity
from pyspark_ottla.options import OptionError
from pyspark_ottla.sink_ledger import Owner, SinkLedger, State

FORMER_MAX = 64
"""The number of earlier drivers that are remembered as replaced."""
_IDLE = ("Empty", "CompleteCommit", "CompleteAbort")


class SupersededError(OptionError):
    """Another driver has taken over this transactional id; this one cannot write any more."""

    def __init__(self, transactional_id: str, by: str | None = None) -> None:
        super().__init__(
            f"fenced: another driver{f' ({by})' if by else ''} writes with transactionalId {transactional_id!r} now, "
            "and this one stops for good, having written nothing twice; to have this one take over again, start its "
            "Spark anew"
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """What all tasks of a write use: the producer id and epoch, and the last committed batch."""

    transactional_id: str
    identity: Identity
    state: State | None
    ledger_end: int
    """The end offset of the ledger when the write was planned; attempts of this write come after it."""


class Coordinator(Protocol):
    """The requests to the coordinator; implemented by `ottla.client.producing.blocking_transactions`."""

    transactional_id: str

    def describe(self) -> TransactionDescription | None:
        """Producer and state, once no end is under way; None for an id that nobody has used."""
        ...

    def take_over(self, timeout_ms: int) -> Identity:
        """Become the producer; what is open is aborted."""
        ...


def take_lease(ledger: SinkLedger, coordinator: Coordinator, driver: str, timeout_ms: int) -> Lease:
    """The lease of a driver for one more batch. Raises SupersededError and ClientError."""
    transactional_id = coordinator.transactional_id
    found = coordinator.describe()
    seen = ledger.read()
    owner = seen.owner
    if owner is not None and owner.driver != driver and driver in owner.former:
        raise SupersededError(transactional_id, owner.driver)
    if (
        owner is not None
        and owner.driver == driver
        and found is not None
        and found.state in _IDLE
        and seen.expects(found.producer_id, found.producer_epoch)
    ):
        identity = Identity(found.producer_id, found.producer_epoch, is_transactional=True)
        return Lease(transactional_id, identity, seen.state, seen.end)
    former = _former(owner, driver)
    ledger.append(Owner(driver, former))
    identity = coordinator.take_over(timeout_ms)
    # Read only now: nobody before can commit any more, so this is the last batch that was.
    seen = ledger.read()
    if seen.owner is None or seen.owner.driver != driver:
        raise SupersededError(transactional_id, seen.owner.driver if seen.owner is not None else None)
    ledger.append(replace(seen.owner, producer_id=identity.producer_id, producer_epoch=identity.epoch))
    return Lease(transactional_id, identity, seen.state, seen.end)


def _former(owner: Owner | None, driver: str) -> tuple[str, ...]:
    if owner is None:
        return ()
    if owner.driver == driver:
        return owner.former
    return (*owner.former, owner.driver)[-FORMER_MAX:]
