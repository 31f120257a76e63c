"""What loading the logs of the data directories found."""

from collections.abc import Iterator

from msgspec import Struct

from ottla.storage.log_recovery import CutTail, DamagedSegment


class LoadReport(Struct, frozen=True):
    """Counts, bytes that had to be read again after an unclean stop, what had to be cut, and what is damaged."""

    log_count: int
    was_clean: bool
    scanned_bytes: int
    cuts: tuple[CutTail, ...]
    took_ms: int
    damaged: tuple[DamagedSegment, ...] = ()
    left_out: tuple[str, ...] = ()
    """What is said of each directory that could not be loaded."""

    def lines(self) -> Iterator[str]:
        """What an operator should hear: nothing after a clean stop."""
        if not self.was_clean and self.log_count:
            yield (
                f"the last shutdown was unclean: recovered {self.log_count} logs, {self.scanned_bytes} bytes read in "
                f"{self.took_ms} ms"
            )
        yield from self.left_out
        for cut in self.cuts:
            yield str(cut)
        for segment in self.damaged:
            yield str(segment)
