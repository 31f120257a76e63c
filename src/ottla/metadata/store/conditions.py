"""What has to hold for a change of the store, the same in every engine."""

from ottla.metadata.store.interface import FencedError, Session, SessionExpiredError, StaleOffsetError


def require_newest_epoch(controller_epoch: int, newest: int) -> None:
    """Raise FencedError unless this is the newest controller epoch."""
    if controller_epoch != newest:
        raise FencedError(f"controller epoch {controller_epoch} is over: the newest is {newest}")


def require_end_offset(expected_end_offset: int, end_offset: int) -> None:
    """Raise StaleOffsetError unless the log ends where it is expected to."""
    if expected_end_offset != end_offset:
        raise StaleOffsetError(f"the metadata log ends at {end_offset}, not at {expected_end_offset}")


def require_live_session(session: Session, *, is_alive: bool) -> None:
    """Raise SessionExpiredError unless the session lives."""
    if not is_alive:
        raise SessionExpiredError(f"the session of broker {session.broker_id} has ended")
