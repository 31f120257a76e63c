"""`python -m chaos`: crash brokers, alone and in a cluster, cut their power, break their disks; check what is left."""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import mkdtemp

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chaos.bit_flip import PLACES, bit_flip
from chaos.chapter import Round
from chaos.cluster_chapter import ClusterRound
from chaos.cluster_run import run_cluster
from chaos.crash_run import run_kills, run_power_cuts
from chaos.delay_topic import run_delays
from chaos.disk_trouble import aborted_journal, failing_disk, full_disk, read_only_disk, remounted_disk
from chaos.loop_image import LoopImageError
from chaos.nsq_channel import run_channels
from chaos.planted import planted_in
from chaos.preloaded import CompilerError
from chaos.queue_chapter import QueueReport, QueueRound
from chaos.read_errors import unreadable_disk
from chaos.report import Report
from chaos.share_group import run_shares
from chaos.stage import TroubleOutcome

PARTS = ("kill", "power-cut", "disk", "bit-flip", "cluster")
"""All that are run by default."""
ON_REQUEST = ("share", "nsq", "delays")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice((*PARTS, *ON_REQUEST)))
@click.option("--kills", default=200, show_default=True, help="How often a broker is killed.")
@click.option("--power-cuts", default=30, show_default=True, help="How often its file system is shut down.")
@click.option(
    "--rounds",
    default=16,
    show_default=True,
    help="How often something is done to a cluster; of share to one broker, and to three.",
)
@click.option("--fault", default="", help="Do to a cluster only what has this in its name, such as `network`.")
@click.option("--plant", default="", help="Run share, nsq or delays with this fault in brokers, to be found.")
@click.option("--seed", default=1, show_default=True, help="What chance depends on.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the result there as JSON.")
def main(
    parts: tuple[str, ...],
    kills: int,
    power_cuts: int,
    rounds: int,
    fault: str,
    plant: str,
    seed: int,
    json_path: Path | None,
) -> None:
    """Run PARTS: kill, power-cut, disk, bit-flip, cluster by default; share, nsq, delays. Ends with 1 if one fails.

    \b
    Examples:
      python -m chaos
      python -m chaos kill --kills 20 --seed 7
      python -m chaos disk bit-flip --json chaos.json
      python -m chaos cluster --rounds 100
      python -m chaos cluster --rounds 10 --fault network
      python -m chaos share --rounds 100
      python -m chaos share --rounds 4 --plant share-not-written
      python -m chaos nsq --rounds 20
      python -m chaos delays --rounds 20
      python -m chaos delays --rounds 1 --plant delays-progress-forgotten
    """
    # The clients say each second that nobody is there: that is what is being done to them.
    logging.disable(logging.CRITICAL)
    console, report = Console(), Report()
    root = Path(mkdtemp(prefix="ottla-chaos-"))
    brokers = planted_in(root, plant) if plant else {}
    console.print(f"data and the broker's logs: {root}")
    with _progress(console) as progress:
        wanted = parts or PARTS
        if "kill" in wanted:
            report.crashes.append(run_kills(root, kills, seed, _bar(progress, "kill -9", kills)))
        if "power-cut" in wanted:
            try:
                report.crashes.append(run_power_cuts(root, power_cuts, seed, _bar(progress, "power cut", power_cuts)))
            except LoopImageError as error:
                report.left_out["power cut"] = str(error)
        if "cluster" in wanted:
            cluster = run_cluster(root, rounds, seed, _cluster_bar(progress, rounds), fault)
            report.clusters.append(cluster)
            if cluster.left_out:
                report.left_out["hosts, their disks and their network"] = cluster.left_out
        for name, run_queue, total in _queues(wanted, rounds):
            _add_queue(report, run_queue(root, rounds, seed, _queue_bar(progress, name, total), brokers))
        scenarios = _scenarios(root, wanted)
        if scenarios:
            task = progress.add_task("disks", total=len(scenarios))
            for name, scenario in scenarios:
                progress.update(task, description=name)
                try:
                    report.troubles.append(scenario())
                except (LoopImageError, CompilerError) as error:
                    report.left_out[name] = str(error)
                progress.advance(task)
    report.show(console)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(report.as_json(), indent=1) + "\n")
        console.print(f"written to {json_path}")
    if report.problems:
        sys.exit(1)
    shutil.rmtree(root)


def _queues(wanted: Collection[str], rounds: int) -> list[tuple[str, Callable[..., QueueReport], int]]:
    """The name of each, what runs it, and the number of its rounds."""
    known: dict[str, tuple[str, Callable[..., QueueReport], int]] = {
        "share": ("share group", run_shares, 2 * rounds),
        "nsq": ("NSQ channel", run_channels, rounds),
        "delays": ("delay topic", run_delays, 2 * rounds),
    }
    return [queue for part, queue in known.items() if part in wanted]


def _add_queue(report: Report, done: QueueReport) -> None:
    report.queues.append(done)
    if done.left_out:
        report.left_out["leaders that are cut off"] = done.left_out


def _scenarios(root: Path, wanted: tuple[str, ...]) -> list[tuple[str, Callable[[], TroubleOutcome]]]:
    found: list[tuple[str, Callable[[], TroubleOutcome]]] = []
    if "disk" in wanted:
        found += [
            ("full disk", lambda: full_disk(root)),
            ("read-only disk", lambda: read_only_disk(root)),
            ("file system turned read-only", lambda: remounted_disk(root)),
            ("EIO from write", lambda: failing_disk(root, "write")),
            ("EIO from sync", lambda: failing_disk(root, "sync")),
            ("journal aborted", lambda: aborted_journal(root)),
            ("EIO from read", lambda: unreadable_disk(root)),
        ]
    if "bit-flip" in wanted:
        found += [(f"bit flip in {place.name}", lambda place=place: bit_flip(root, place)) for place in PLACES]
    return found


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _bar(progress: Progress, name: str, total: int) -> Callable[[int, Round], None]:
    task = progress.add_task(name, total=total)

    def on_round(number: int, done: Round) -> None:
        worst = max(done.recovery_s.values())
        progress.update(task, completed=number + 1, description=f"{name}: {done.moment.value}, back in {worst:.1f} s")

    return on_round


def _cluster_bar(progress: Progress, total: int) -> Callable[[int, ClusterRound], None]:
    task = progress.add_task("cluster", total=total)

    def on_round(number: int, done: ClusterRound) -> None:
        description = f"cluster: {done.fault}, silent for {done.silence_s:.1f} s"
        progress.update(task, completed=number + 1, description=description)

    return on_round


def _queue_bar(progress: Progress, name: str, total: int) -> Callable[[int, QueueRound], None]:
    task = progress.add_task(name, total=total)

    def on_round(number: int, done: QueueRound) -> None:
        description = f"{name}: {done.fault}, done in {done.done_s:.1f} s"
        progress.update(task, completed=number + 1, description=description)

    return on_round


if __name__ == "__main__":
    main()
