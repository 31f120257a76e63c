"""The table of clients by features that a run of the conformance tests comes to.

A test says what it shows with `@pytest.mark.proves(client="aiokafka", feature="static membership")`. A class, a module
or a parameter may name the client alone (`proves(client=...)`) and its tests the features (`proves(feature=...)`).

    feature   | confluent-kafka | aiokafka
    ----------|-----------------|------------------
    acks      | ok              | **failed** 1 of 3
    seek      | ok              | skipped
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

CLIENT_ORDER = (
    "confluent-kafka",
    "kafka-python",
    "aiokafka",
    "Kafka's Java client",
    "Kafka's tools",
    "franz-go",
    "kafkajs",
    "confluent-kafka-javascript",
    "Spark connector",
    "Ottla client",
)
"""The columns from the left; a client that is not named here comes after, by name."""


class Outcome(StrEnum):
    """How one test ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Proof:
    """One outcome for one client and feature; `reason` says why it failed or was skipped, in one line."""

    client: str
    feature: str
    test: str
    outcome: Outcome
    reason: str = ""


@dataclass(slots=True)
class Cell:
    """All tests of one client and feature."""

    proofs: list[Proof] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        """How many of the tests ended so."""
        return sum(proof.outcome is outcome for proof in self.proofs)

    @property
    def outcome(self) -> Outcome:
        """Failed when one test failed, skipped when none ran, else ok."""
        if self.count(Outcome.FAILED):
            return Outcome.FAILED
        return Outcome.OK if self.count(Outcome.OK) else Outcome.SKIPPED

    def __str__(self) -> str:
        if self.outcome is Outcome.FAILED:
            return f"**failed** {self.count(Outcome.FAILED)} of {len(self.proofs)}"
        skipped = self.count(Outcome.SKIPPED)
        return (
            f"ok, {skipped} of {len(self.proofs)} skipped" if self.outcome is Outcome.OK and skipped else self.outcome
        )


def claims(marks: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Client and feature of each claim in the keywords of a test's `proves` marks, the test's own marks first.

    Raises:
        ValueError: a mark names neither, or a feature for which no client is named.
    """
    known = list(marks)
    clients = [mark["client"] for mark in known if "feature" not in mark and "client" in mark]
    found = set()
    for mark in known:
        if not mark.keys() <= {"client", "feature"} or not mark:
            raise ValueError(f"a proves mark takes client and feature, not {sorted(mark)}")
        if "feature" in mark:
            client = mark.get("client") or next(iter(clients), None)
            if client is None:
                raise ValueError(f"no client is named for the feature {mark['feature']!r}")
            found.add((client, mark["feature"]))
    return sorted(found)


def cells_of(proofs: Iterable[Proof]) -> dict[str, dict[str, Cell]]:
    """The cells by feature and client, in the order in which they are shown."""
    ordered = sorted(proofs, key=lambda proof: (proof.feature.lower(), _column(proof.client), proof.test))
    table: dict[str, dict[str, Cell]] = {}
    for proof in ordered:
        table.setdefault(proof.feature, {}).setdefault(proof.client, Cell()).proofs.append(proof)
    return table


def as_markdown(proofs: Iterable[Proof]) -> str:
    """The table, and below it why tests failed or were skipped."""
    table = cells_of(proofs)
    clients = sorted({client for row in table.values() for client in row}, key=_column)
    lines = ["# Clients by features", "", _row(["feature", *clients]), _row(["---"] * (len(clients) + 1))]
    for feature, row in table.items():
        lines.append(_row([feature, *(str(row.get(client, "")) for client in clients)]))
    for outcome, title in ((Outcome.FAILED, "Failed"), (Outcome.SKIPPED, "Skipped")):
        reasons = _reasons(table, outcome)
        if reasons:
            lines += ["", f"## {title}", "", *reasons]
    return "\n".join(lines) + "\n"


def as_json(proofs: Iterable[Proof]) -> str:
    """A list of cells, each with client, feature, outcome, and its tests."""
    cells = [
        {
            "feature": feature,
            "client": client,
            "outcome": cell.outcome,
            "tests": [{"test": p.test, "outcome": p.outcome, "reason": p.reason} for p in cell.proofs],
        }
        for feature, row in cells_of(proofs).items()
        for client, cell in row.items()
    ]
    return json.dumps(cells, indent=2) + "\n"


def _column(client: str) -> tuple[int, str]:
    return (CLIENT_ORDER.index(client) if client in CLIENT_ORDER else len(CLIENT_ORDER), client)


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _reasons(table: dict[str, dict[str, Cell]], outcome: Outcome) -> list[str]:
    return [
        f"- {client}, {feature}: `{proof.test}`: {proof.reason}"
        for feature, row in table.items()
        for client, cell in row.items()
        for proof in cell.proofs
        if proof.outcome is outcome
    ]
