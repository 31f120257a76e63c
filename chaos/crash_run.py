"""Many crashes in a row, in chapters, each with a broker and a checker of its own."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

from chaos.chapter import ChapterResult, Round, directories_of, run_chapter
from chaos.crash import PowerCut, kill
from chaos.loop_image import LoopImage
from chaos.moments import Moment

ROUNDS_PER_CHAPTER = 40
IMAGE_MB = 512

OnRound = Callable[[int, Round], None]


@dataclass(slots=True)
class CrashReport:
    """All chapters of one kind of crash."""

    kind: str
    seed: int
    chapters: list[ChapterResult] = field(default_factory=list)

    @property
    def rounds(self) -> list[Round]:
        """All rounds."""
        return [each for chapter in self.chapters for each in chapter.rounds]

    @property
    def violations(self) -> list[str]:
        """All violations, with the chapter they are of."""
        return [f"chapter {i}: {each}" for i, chapter in enumerate(self.chapters) for each in chapter.violations]

    def counts(self) -> dict[str, int]:
        """Sums over the chapters."""
        return sums(chapter.counts for chapter in self.chapters)

    def moments(self) -> dict[str, int]:
        """How many crashes at each moment; those whose moment did not come count as `missed`."""
        found: dict[str, int] = {}
        for each in self.rounds:
            name = each.moment.value if each.came else f"{each.moment.value}, missed"
            found[name] = found.get(name, 0) + 1
        return found

    def recovery(self) -> dict[str, dict[str, float]]:
        """Seconds from the crash to the next acknowledged write, for each producer: p50, p90 and max.

        Rounds in which the broker dies again while it starts are not in it.
        """
        rounds = [each for each in self.rounds if each.moment is not Moment.START]
        if not rounds:
            return {}
        names = rounds[0].recovery_s.keys()
        found = {name: summary([each.recovery_s[name] for each in rounds]) for name in sorted(names)}
        return {"broker ready": summary([each.ready_s for each in rounds]), **found}

    def as_json(self) -> dict[str, object]:
        """Everything but the single rounds."""
        return {
            "kind": self.kind,
            "seed": self.seed,
            "rounds": len(self.rounds),
            "moments": self.moments(),
            "recovery_s": self.recovery(),
            "counts": self.counts(),
            "violations": self.violations,
        }


def sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """What was counted, added up."""
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def summary(seconds: list[float]) -> dict[str, float]:
    """p50, p90 and max."""
    ordered = sorted(seconds)
    p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    return {"p50": round(median(ordered), 3), "p90": round(p90, 3), "max": round(ordered[-1], 3)}


def plan_moments(rounds: int, rng: Random) -> list[Moment]:
    """So many moments: every kind equally often, in an order of chance."""
    kinds = list(Moment)
    moments = [kinds[index % len(kinds)] for index in range(rounds)]
    rng.shuffle(moments)
    return moments


def _told(on_round: OnRound, first: int, done: Round) -> None:
    on_round(first + done.number, done)


def run_kills(root: Path, rounds: int, seed: int, on_round: OnRound) -> CrashReport:
    """kill -9, `rounds` times: what is written survives it, so in every other chapter nothing is flushed before it is
    acknowledged.
    """
    rng = Random(seed)
    report = CrashReport("kill", seed)
    moments = plan_moments(rounds, rng)
    for number, first in enumerate(range(0, rounds, ROUNDS_PER_CHAPTER)):
        directory = root / f"kill-{number}"
        chapter = run_chapter(
            directory,
            root,
            kill,
            moments[first : first + ROUNDS_PER_CHAPTER],
            rng,
            partial(_told, on_round, first),
            settings={"log.flush.before.ack": str(number % 2 == 0).lower()},
        )
        report.chapters.append(chapter)
        if not chapter.violations:
            for each in directories_of(directory):
                shutil.rmtree(each)
    return report


def run_power_cuts(root: Path, rounds: int, seed: int, on_round: OnRound) -> CrashReport:
    """Power cuts, `rounds` times. Raises LoopImageError where they cannot be made."""
    rng = Random(seed)
    report = CrashReport("power cut", seed)
    with LoopImage(root / "power-cut", IMAGE_MB) as image:
        chapter = run_chapter(
            image.mount_point / "power-cut-data",
            root,
            PowerCut(image),
            plan_moments(rounds, rng),
            rng,
            lambda done: on_round(done.number, done),
        )
    report.chapters.append(chapter)
    return report
