"""Many faults of a cluster, in chapters, each with three brokers and a checker of its own."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from chaos.cluster_chapter import BROKER_SETTINGS, REPLICAS, ClusterResult, ClusterRound, run_cluster_chapter
from chaos.cluster_faults import FAULTS
from chaos.crash_run import summary, sums
from chaos.host_cluster import HostCluster, why_not
from chaos.host_faults import FLUSHED_ONLY, HOST_FAULTS, ON_REQUEST
from tests.cluster import Cluster

ROUNDS_PER_CHAPTER = 24
ROUNDS_OF_HOSTS = 12
"""Those take longer: so few in a chapter, that there are chapters of both kinds in a run."""


@dataclass(slots=True)
class ClusterReport:
    """All chapters."""

    seed: int
    chapters: list[ClusterResult] = field(default_factory=list)
    left_out: str = ""
    """Why nothing was done to hosts, their disks and their network."""

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
        for name in (*FAULTS, *HOST_FAULTS):
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


def plan_faults(rounds: int, kinds: Sequence[str], rng: Random) -> list[str]:
    """So many faults: every kind equally often, in an order of chance."""
    faults = [kinds[index % len(kinds)] for index in range(rounds)]
    rng.shuffle(faults)
    return faults


def _told(on_round: Callable[[int, ClusterRound], None], first: int, done: ClusterRound) -> None:
    on_round(first + done.number, done)


def run_cluster(
    root: Path, rounds: int, seed: int, on_round: Callable[[int, ClusterRound], None], wanted: str = ""
) -> ClusterReport:
    """`rounds` faults: those whose names have `wanted` in them, and some only when it is their name. In every second
    chapter nothing is flushed before it is acknowledged.

    Faults of processes alone are done to brokers that share a file, those of hosts to brokers that have one each.
    """
    rng = Random(seed)
    report = ClusterReport(seed)
    of_processes = [name for name in FAULTS if wanted in name]
    of_hosts = [name for name in HOST_FAULTS if wanted in name and (wanted == name or name not in ON_REQUEST)]
    reason = why_not() if of_hosts else None
    if reason is not None:
        report.left_out = reason
        of_hosts = []
    kinds = len(of_processes) + len(of_hosts)
    share = rounds * len(of_hosts) // kinds if kinds else 0
    plans = [(False, plan_faults(rounds - share if of_processes else 0, of_processes, rng))]
    plans.append((True, plan_faults(share, of_hosts, rng)))
    first = 0
    for is_of_hosts, plan in plans:
        length = ROUNDS_OF_HOSTS if is_of_hosts else ROUNDS_PER_CHAPTER
        for number, start in enumerate(range(0, len(plan), length)):
            flushes = number % 2 == 0
            faults = plan[start : start + length]
            if not flushes:
                faults = [name for name in faults if name not in FLUSHED_ONLY]
            directory = root / f"{'hosts' if is_of_hosts else 'cluster'}-{number}"
            directory.mkdir()
            settings = {**BROKER_SETTINGS, "log.flush.before.ack": str(flushes).lower()}
            chapter = _chapter(directory, settings, faults, rng, partial(_told, on_round, first), of_hosts=is_of_hosts)
            report.chapters.append(chapter)
            first += len(faults)
            if not chapter.violations:
                shutil.rmtree(directory)
    return report


def _chapter(
    directory: Path,
    settings: dict[str, str],
    faults: Sequence[str],
    rng: Random,
    on_round: Callable[[ClusterRound], None],
    *,
    of_hosts: bool,
) -> ClusterResult:
    if of_hosts:
        hosts = HostCluster(directory, REPLICAS, settings)
        return run_cluster_chapter(
            hosts, [(name, partial(HOST_FAULTS[name], hosts, rng)) for name in faults], rng, on_round
        )
    cluster = Cluster(directory, REPLICAS, settings)
    return run_cluster_chapter(cluster, [(name, partial(FAULTS[name], cluster, rng)) for name in faults], rng, on_round)
