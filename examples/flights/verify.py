"""Everything that came out, read back and compared with what had to come out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from examples.flights.check import same_dead_letters, same_events, same_number, same_windows
from examples.flights.events import Events
from examples.flights.expected import expected_delays, expected_events
from examples.flights.files import DemoFiles
from examples.flights.ottla_command import ottla
from examples.flights.pipeline_process import QuerySeen
from examples.flights.planted import Feed
from examples.flights.producer import CLOSING_EVENT, Origin
from examples.flights.read_back import DeadLetter, read_dead_letters, read_delays
from examples.flights.topics import EVENTS


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent: everything good comes from the table of flights, everything else was planted."""

    days: int
    events: Events
    feed: Feed
    origins: Mapping[int, Origin]

    @property
    def records(self) -> int:
        """All, with the one that closes the last windows."""
        return len(self.feed) + 1

    @property
    def good(self) -> int:
        """Different events that are right."""
        return len(self.events) + 1


def verify_delays(bootstrap: str, days: int) -> tuple[pd.DataFrame, list[str]]:
    """The topic of windows, each of which was written once, and how it differs from what had to come."""
    found = read_delays(bootstrap)
    return found, same_windows(found, expected_delays(days), "the topic of delays")


def verify_table(files: DemoFiles, sent: Sent) -> list[str]:
    """How the table of events differs from the events that were sent: each once, also those that were told twice."""
    closing = json.dumps(CLOSING_EVENT).encode()
    return same_events(pq.read_table(files.table), expected_events([*sent.events.values, closing]), "the table")


def verify_dead_letters(bootstrap: str, sent: Sent) -> tuple[Sequence[DeadLetter], list[str]]:
    """The dead letters, and how they differ from what was planted."""
    found = read_dead_letters(bootstrap)
    return found, same_dead_letters(found, sent.feed.malformed, sent.origins, EVENTS)


def verify_numbers(queries: Mapping[str, QuerySeen], sent: Sent) -> list[str]:
    """Whether each query read each record once, as it said while it ran."""
    differences = []
    for name, seen in queries.items():
        differences += same_number(seen.rows, sent.records, f"{name}: records read")
        differences += same_number(seen.bad_rows, len(sent.feed.malformed), f"{name}: bad rows")
        differences += same_number(seen.late_rows, 0, f"{name}: rows that came too late for their window")
    return differences


@dataclass(frozen=True, slots=True)
class Audited:
    """What `ottla pipeline audit` says."""

    batches: int
    repeated: int
    differences: list[str]


def verify_audit(bootstrap: str, files: DemoFiles, sent: Sent) -> Audited:
    """Whether the audit balances, and its sums are those of what was sent."""
    said = ottla("pipeline", "audit", str(files.pipeline), "--bootstrap", bootstrap, "--json", may_fail=True)
    found = json.loads(said.stdout)
    differences = [f"audit: {each['sink']}: {each['kind']}: {each['message']}" for each in found["findings"]]
    if said.returncode and not differences:
        differences.append(f"`ottla pipeline audit` ended with {said.returncode}: {said.stderr.strip()}")
    refused = {"events": 0, "checked": 0}
    for each in sent.feed.malformed.values():
        refused[each.step] += 1
    decoded = sent.records - refused["events"]
    wanted: dict[tuple[str, str, str], int] = {}
    for sink in ("delays", "lake"):
        wanted[sink, "events", "in"] = sent.records
        wanted[sink, "events", "out"] = wanted[sink, "checked", "in"] = decoded
        wanted[sink, "checked", "out"] = decoded - refused["checked"]
        wanted[sink, "once", "out"] = sent.good
    for step, count in refused.items():
        wanted["delays", step, "dead_letters"] = count
    sums = _sums(found["totals"])
    for place, count in wanted.items():
        differences += same_number(sums.get(place), count, f"audit: sink {place[0]}, step {place[1]}, {place[2]}")
    return Audited(found["batches"], found["repeated"], differences)


def _sums(totals: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], int]:
    """By sink, step and way, over all windows."""
    sums: dict[tuple[str, str, str], int] = {}
    for each in totals:
        for role, count in each["rows"].items():
            place = each["sink"], each["step"], role
            sums[place] = sums.get(place, 0) + count
    return sums
