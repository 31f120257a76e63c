"""Many faults of a cluster, in chapters, each with three brokers and a checker of its own."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random

from chaos import reassignments
from chaos.cluster_chapter import (
    ALL_TOPICS,
    BROKER_SETTINGS,
    REPLICAS,
    ClusterResult,
    ClusterRound,
    run_cluster_chapter,
)
from chaos.cluster_faults import FAULTS
from chaos.crash_run import summary, sums
from chaos.host_cluster import HostCluster, why_not
from chaos.host_faults import FLUSHED_ONLY, HOST_FAULTS, ON_REQUEST
from chaos.reassignments import REASSIGNMENTS, Reassigner
from tests.cluster import Cluster


class Kind(Enum):
    """What there is in a chapter, and how many rounds at most; its directory has the name."""

    PROCESSES = "cluster", 24
    REASSIGNMENTS = "reassignments", 6
    HOSTS = "hosts", 12

    def __init__(self, label: str, rounds_max: int) -> None:
        self.label = label
        self.rounds_max = rounds_max


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
        for name in (*FAULTS, *REASSIGNMENTS, *HOST_FAULTS):
            rounds = [each for each in self.rounds if each.fault == name]
            if rounds:
                silence = summary([each.silence_s for each in rounds])
                found[name] = {"silence": silence, "in sync": summary([each.in_sync_s for each in rounds])}
        return found

    def as_json(self) -> dict[str, object]:
        """Everything."""
        return {
            "seed": self.seed,
            "rounds": len(self.rounds),
            "each": [asdict(each) for each in self.rounds],
            "seconds": self.by_fault(),
            "counts": self.counts(),
            "violations": self.violations,
        }


def plan_faults(rounds: int, kinds: Sequence[str], rng: Random) -> list[str]:
    """So many faults: every kind equally often, or some of them once, in an order of chance."""
    some = rng.sample(kinds, len(kinds))
    faults = [some[index % len(kinds)] for index in range(rounds)]
    rng.shuffle(faults)
    return faults


def plan_kinds(rounds: int, kinds: Mapping[Kind, Sequence[str]], rng: Random) -> dict[Kind, list[str]]:
    """The faults of each kind, whose share of the rounds is that of its faults; the first has what is left over."""
    count = sum(map(len, kinds.values()))
    shares = {kind: rounds * len(names) // count for kind, names in kinds.items() if names}
    for kind in list(shares)[:1]:
        shares[kind] += rounds - sum(shares.values())
    return {kind: plan_faults(share, kinds[kind], rng) for kind, share in shares.items()}


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
    kinds = {
        Kind.PROCESSES: [name for name in FAULTS if wanted in name],
        Kind.REASSIGNMENTS: [name for name in REASSIGNMENTS if wanted in name],
        Kind.HOSTS: [name for name in HOST_FAULTS if wanted in name and (wanted == name or name not in ON_REQUEST)],
    }
    reason = why_not() if kinds[Kind.HOSTS] else None
    if reason is not None:
        report.left_out = reason
        kinds[Kind.HOSTS] = []
    first = 0
    for kind, plan in plan_kinds(rounds, kinds, rng).items():
        for number, start in enumerate(range(0, len(plan), kind.rounds_max)):
            flushes = number % 2 == 0
            faults = plan[start : start + kind.rounds_max]
            if not flushes:
                faults = [name for name in faults if name not in FLUSHED_ONLY]
            directory = root / f"{kind.label}-{number}"
            directory.mkdir()
            settings = {**BROKER_SETTINGS, "log.flush.before.ack": str(flushes).lower()}
            chapter = _chapter(kind, directory, settings, faults, rng, partial(_told, on_round, first))
            report.chapters.append(chapter)
            first += len(faults)
            if not chapter.violations:
                shutil.rmtree(directory)
    return report


def _chapter(
    kind: Kind,
    directory: Path,
    settings: dict[str, str],
    names: Sequence[str],
    rng: Random,
    on_round: Callable[[ClusterRound], None],
) -> ClusterResult:
    if kind is Kind.HOSTS:
        hosts = HostCluster(directory, REPLICAS, settings)
        of_hosts = [(name, partial(HOST_FAULTS[name], hosts, rng)) for name in names]
        return run_cluster_chapter(hosts, of_hosts, rng, on_round)
    if kind is Kind.REASSIGNMENTS:
        cluster = Cluster(directory, reassignments.BROKERS, settings)
        reassigner = Reassigner(cluster, ALL_TOPICS)
        moves = [(name, partial(REASSIGNMENTS[name], reassigner, rng)) for name in names]
        result = run_cluster_chapter(cluster, moves, rng, on_round, reassignments.TOPICS, reassigner.wait_until_filled)
        result.violations += reassigner.violations
        result.counts |= reassigner.counts
        return result
    cluster = Cluster(directory, REPLICAS, settings)
    return run_cluster_chapter(cluster, [(name, partial(FAULTS[name], cluster, rng)) for name in names], rng, on_round)
