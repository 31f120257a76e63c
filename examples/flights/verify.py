"""Everything that came out, read back and compared with what had to come out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow.dataset as ds

from examples.flights.check import same_dead_letters, same_number, same_windows
from examples.flights.events import Events
from examples.flights.expected import expected_delays
from examples.flights.files import DemoFiles
from examples.flights.malformed import Malformed
from examples.flights.producer import Origin
from examples.flights.read_back import DeadLetter, read_dead_letters, read_delays
from examples.flights.topics import EVENTS

MicroBatches = Sequence[Mapping[str, Any]]
"""What Spark told about the micro-batches of a query, in their order."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent: everything good comes from the table of flights, everything else was planted."""

    days: int
    events: Events
    malformed: Sequence[Malformed]
    origins: Mapping[int, Origin]


@dataclass(frozen=True, slots=True)
class Processed:
    """What Spark told: of the windows' two runs and of the dead letters' one."""

    delays: MicroBatches
    last_delays: MicroBatches
    dead_letters: MicroBatches

    @property
    def rows(self) -> int:
        """Rows that were read in the first runs, by both queries."""
        return _rows(self.delays) + _rows(self.dead_letters)

    @property
    def dropped(self) -> int:
        """Rows that came after their window had closed."""
        operators = [each for batch in [*self.delays, *self.last_delays] for each in batch["stateOperators"]]
        return sum(operator["numRowsDroppedByWatermark"] for operator in operators)


@dataclass(frozen=True, slots=True)
class Verified:
    """What came out, and how it differs from what had to; no difference is good."""

    table: pd.DataFrame
    dead_letters: Sequence[DeadLetter]
    differences: list[str]


def verify(bootstrap: str, files: DemoFiles, sent: Sent, processed: Processed) -> Verified:
    """Read the table, the topic of results and the dead letters, and compare all of each."""
    table = ds.dataset(files.table, format="parquet").to_table().to_pandas()
    dead_letters = read_dead_letters(bootstrap)
    expected = expected_delays(sent.days)
    records = len(sent.events) + len(sent.malformed)
    return Verified(
        table,
        dead_letters,
        [
            # The last run reads the one event that closes the windows.
            *same_number(_rows(processed.delays) + _rows(processed.last_delays), records + 1, "rows read for windows"),
            *same_number(_rows(processed.dead_letters), records, "rows read for dead letters"),
            *same_number(processed.dropped, 0, "rows that came too late for their window"),
            *same_windows(table, expected, "the table"),
            *same_windows(read_delays(bootstrap), expected, "the topic of results"),
            *same_dead_letters(dead_letters, sent.malformed, sent.origins, EVENTS),
        ],
    )


def _rows(batches: MicroBatches) -> int:
    return sum(batch["numInputRows"] for batch in batches)
