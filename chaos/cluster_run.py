"""Many faults of a cluster, in chapters, each with three brokers and a checker of its own."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from chaos.cluster_chapter import BROKER_SETTINGS, REPLICAS, ClusterResult, ClusterRound, run_cluster_chapter
from chaos.cluster_faults import FAULTS
from chaos.crash_run import summary, sums
from tests.cluster import Cluster

ROUNDS_PER_CHAPTER = 24


@dataclass(slots=True)
class ClusterReport:
    """All chapters."""

    seed: int
    chapters: list[ClusterResult] = field(default_factory=list)

    @property
    def rounds(self) -> list[ClusterRound]:
        """All rounds."""
        return [each for chapter in self.chapters for each in chapter.rounds]

    @property
    def violations(self) -> list[str]:
        """All violations, with the chapter they are of."""
        return [f"chapter {i}: {each}" for i, chapter in enumerate(self.chapters) for each in chapter.violations]

    def counts(self) -> dict[str, int]:
        """Sums over the chapters."""
        return sums(chapter.counts for chapter in self.chapters)

    def by_fault(self) -> dict[str, dict[str, dict[str, float]]]:
        """Seconds without an acknowledgement, and until all were in sync again, for each fault: p50, p90 and max."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for name in FAULTS:
            rounds = [each for each in self.rounds if each.fault == name]
            if rounds:
                silence = summary([each.silence_s for each in rounds])
                found[name] = {"silence": silence, "in sync": summary([each.in_sync_s for each in rounds])}
        return found

    def as_json(self) -> dict[str, object]:
        """Everything but the single rounds."""
        return {
            "seed": self.seed,
            "rounds": len(self.rounds),
            "seconds": self.by_fault(),
            "counts": self.counts(),
            "violations": self.violations,
        }


def plan_faults(rounds: int, rng: Random) -> list[str]:
    """So many faults: every kind equally often, in an order of chance."""
    kinds = list(FAULTS)
    faults = [kinds[index % len(kinds)] for index in range(rounds)]
    rng.shuffle(faults)
    return faults


def _told(on_round: Callable[[int, ClusterRound], None], first: int, done: ClusterRound) -> None:
    on_round(first + done.number, done)


def run_cluster(root: Path, rounds: int, seed: int, on_round: Callable[[int, ClusterRound], None]) -> ClusterReport:
    """`rounds` faults. In every second chapter nothing is flushed before it is acknowledged."""
    rng = Random(seed)
    report = ClusterReport(seed)
    faults = plan_faults(rounds, rng)
    for number, first in enumerate(range(0, rounds, ROUNDS_PER_CHAPTER)):
        directory = root / f"cluster-{number}"
        directory.mkdir()
        settings = {**BROKER_SETTINGS, "log.flush.before.ack": "true" if number % 2 == 0 else "false"}
        chapter = run_cluster_chapter(
            Cluster(directory, REPLICAS, settings),
            faults[first : first + ROUNDS_PER_CHAPTER],
            rng,
            partial(_told, on_round, first),
        )
        report.chapters.append(chapter)
        if not chapter.violations:
            shutil.rmtree(directory)
    return report
