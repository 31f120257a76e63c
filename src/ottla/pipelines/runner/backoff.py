"""The delay before a failed query is restarted, and when to stop restarting it."""

from dataclasses import dataclass
from typing import Final

from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.runtime.rng import Rng

FIRST_MS: Final = 1_000
LONGEST_MS: Final = 60_000
"""The maximum delay before a restart."""
UNREACHABLE_LONGEST_MS: Final = 10_000
"""The maximum delay while brokers are unreachable: so long after they return, queries continue at the latest."""
ATTEMPTS_MAX: Final = 5
"""The number of restarts in a row without a completed micro-batch; the next failure is final. Unreachable brokers do
not count: the query waits for them without limit."""


@dataclass(slots=True)
class Backoff:
    """The failures of one query. Not safe for several threads at once."""

    rng: Rng
    failures: int = 0
    """The number of failures since the last completed micro-batch."""

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
