"""Faults of those who lead for an NSQ channel: three brokers and a lookup service.

What was answered with OK is delivered until it is finished; what was finished is delivered to nobody who subscribes
after the CLS behind the FIN was answered; attempts are not fewer than those that were stored with a REQ.
"""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random

from chaos.cluster_run import plan_faults
from chaos.nsq_work import CHANNEL, TOPIC, ChannelAtWork, Connection, GoneError, running
from chaos.queue_chapter import (
    BROKER_SETTINGS,
    FAULTS,
    REPLICAS,
    REPLICATED,
    Queue,
    QueueReport,
    QueueRound,
    run_chapter,
)
from tests.cluster import Cluster, wait_until
from tests.system.test_lookupd import LookupdProcess
from tests.system.test_nsq import LISTENERS, address

ROUNDS_PER_CHAPTER = 20
CHANNEL_FAULTS = tuple(name for name in FAULTS if not name.startswith("cut"))


def run_channels(
    root: Path,
    rounds: int,
    seed: int,
    on_round: Callable[[int, QueueRound], None],
    environment: Mapping[str, str] | None = None,
) -> QueueReport:
    """So many faults, in chapters with a cluster each. The environment is that of brokers."""
    rng, report = Random(seed), QueueReport("an NSQ channel", seed)
    plan = plan_faults(rounds, CHANNEL_FAULTS, rng)
    for first in range(0, rounds, ROUNDS_PER_CHAPTER):
        directory = root / f"channel-{first}"
        directory.mkdir()
        found = run_channel(directory, plan[first : first + ROUNDS_PER_CHAPTER], rng, report, on_round, environment)
        report.violations += [f"{directory.name}: {each}" for each in found]
        if not found:
            shutil.rmtree(directory)
    return report


def run_channel(
    directory: Path,
    faults: list[str],
    rng: Random,
    report: QueueReport,
    on_round: Callable[[int, QueueRound], None],
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """One chapter: what was found to be wrong."""
    lookupd = LookupdProcess()
    try:
        settings = {
            **BROKER_SETTINGS,
            **REPLICATED,
            **LISTENERS,
            "nsq.lookupd.tcp.addresses": f"{lookupd.tcp[0]}:{lookupd.tcp[1]}",
            "nsq.broadcast.address": "127.0.0.1",
        }
        cluster = Cluster(directory, REPLICAS, settings)
        for broker in cluster.brokers.values():
            broker.environment = dict(environment or {})
        at_work: list[ChannelAtWork] = []
        queue = Queue(TOPIC, CHANNEL, 1, partial(_start, lookupd, at_work))
        found = run_chapter(cluster, queue, faults, rng, report, on_round)
        for each in at_work:
            report.add(each.counts)
        return found
    finally:
        lookupd.close()


def _start(lookupd: LookupdProcess, at_work: list[ChannelAtWork], cluster: Cluster, rng: Random) -> ChannelAtWork:
    def is_subscribed() -> bool:
        """The channel is there before anything is published."""
        try:
            connection = Connection(address(running(cluster)[0]))
            connection.say(f"SUB {TOPIC} {CHANNEL}".encode())
            return connection.answer()[1] == b"OK"
        except GoneError:
            return False

    wait_until(is_subscribed, "somebody has subscribed")
    work = ChannelAtWork(cluster, lookupd, rng.randrange(1 << 30))
    work.start()
    at_work.append(work)
    return work
