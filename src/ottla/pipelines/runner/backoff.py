"""How long to wait before a query that failed is started again, and when to give it up."""

from dataclasses import dataclass
from typing import Final

from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.runtime.rng import Rng

FIRST_MS: Final = 1_000
LONGEST_MS: Final = 60_000
"""Long enough not to weigh on a cluster in trouble, short enough that nobody starts the pipeline by hand meanwhile."""
UNREACHABLE_LONGEST_MS: Final = 10_000
"""Brokers that are back are found within so long. To look for them costs little, and nothing of theirs."""
ATTEMPTS_MAX: Final = 5
"""Failures in a row, without a micro-batch between them, for a reason that nobody knows to pass: the next one is for
good. Brokers that are away are waited for without end."""


@dataclass(slots=True)
class Backoff:
    """The failures of one query. Not safe for several threads at once."""

    rng: Rng
    failures: int = 0
    """In a row: since the last micro-batch that was done."""

    def progressed(self) -> None:
        """Resets the count of failures after a completed micro-batch."""
        self.failures = 0

    def failed(self, failure: Failure) -> int | None:
        """The wait before the next start, in ms; None to give up.

        The wait doubles with each failure in a row, up to `LONGEST_MS`, or `UNREACHABLE_LONGEST_MS`; of it a random
        half is taken away, so that queries that failed together do not start together.
        """
        self.failures += 1
        if failure.verdict is Verdict.HOPELESS:
            return None
        if failure.verdict in (Verdict.UNKNOWN, Verdict.ROW) and self.failures > ATTEMPTS_MAX:
            return None
        longest_ms = UNREACHABLE_LONGEST_MS if failure.verdict is Verdict.UNREACHABLE else LONGEST_MS
        wait_ms = min(FIRST_MS << min(self.failures - 1, 16), longest_ms)
        return round(wait_ms * self.rng.uniform(0.5, 1.0))
