"""The jobs, as if videos were to be transcoded."""

import json
from dataclasses import asdict, dataclass
from typing import Final

GOOD, DELAYED, POISONED, INVALID = "good", "delayed", "poisoned", "invalid"
KINDS: Final = (GOOD, DELAYED, POISONED, INVALID)


@dataclass(frozen=True)
class Job:
    """What a worker is to do; `due_ms` is when it may begin at the earliest, 0 for at once."""

    number: int
    kind: str
    work_ms: int
    due_ms: int = 0

    def encode(self) -> bytes:
        """The value of its record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> "Job":
        """The reverse."""
        return cls(**json.loads(value))


def new_jobs(count: int, due_ms: int) -> list[Job]:
    """Of each 20 jobs 3 are delayed until `due_ms`, one makes every worker fail, one is refused by all."""
    kinds = {3: DELAYED, 5: POISONED, 9: DELAYED, 13: INVALID, 17: DELAYED}
    jobs = []
    for number in range(count):
        kind = kinds.get(number % 20, GOOD)
        jobs.append(Job(number, kind, 60 + number * 37 % 120, due_ms if kind == DELAYED else 0))
    return jobs
