"""Scripts as lists of steps, of one client or of several."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tests.conformance.redis_replies import Command


class Kind(Enum):
    """How a step is taken."""

    RUN = "run"
    BEGIN = "begin"
    """The command may wait: its reply is not read."""
    END = "end"
    """The command waits no more: its reply is read."""


class Step(NamedTuple):
    """A command of a client."""

    client: int
    command: Command
    kind: Kind = Kind.RUN


Steps = list[Step]
Script = list[Steps]


def without_nesting(steps: Steps) -> Steps:
    """Steps without MULTI and WATCH inside MULTI, which end the transaction with Valkey, but not with Redis."""
    inside: set[int] = set()
    kept: Steps = []
    for step in steps:
        name = step.command[0]
        if step.client in inside and name in ("MULTI", "WATCH"):
            continue
        kept.append(step)
        if name == "MULTI":
            inside.add(step.client)
        elif step.command in (("EXEC",), ("DISCARD",)):
            inside.discard(step.client)
    return kept


def flat(script: Script) -> Steps:
    """The steps of a script."""
    return [step for some in script for step in some]
