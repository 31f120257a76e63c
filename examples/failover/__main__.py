"""The cluster's demo: three brokers, a load that waits for all replicas, the leader killed in the middle of it.

Exit code 0: everything acknowledged was read, nothing is there twice. 1: not so, or the demo failed.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.failover.brokers import Brokers
from examples.failover.load import Load
from examples.failover.outcome import Outcome, outcome_of
from examples.flights.failure import DemoError
from examples.flights.processes import adopt_orphans, end_all_children

TOPIC, PARTITIONS, REPLICAS = "orders", 6, 3
WAIT_S = 60


def main() -> int:
    """Run it, say what came of it, and leave nothing running."""
    parser = argparse.ArgumentParser(prog="python -m examples.failover", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/cluster"), help="where to put the picture")
    parser.add_argument("--seconds", type=float, default=6, help="how long before the kill, and after it (6)")
    parser.add_argument("--embedded", action="store_true", help="keep the metadata in a file, without ZooKeeper")
    arguments = parser.parse_args()
    adopt_orphans()
    try:
        outcome = run(arguments.out, arguments.seconds, embedded=arguments.embedded)
    except DemoError as error:
        print(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        print("stopped")
        return 130
    finally:
        end_all_children()
    return 1 if outcome.lost or outcome.doubled_in_log else 0


def run(out: Path, seconds: float, *, embedded: bool) -> Outcome:
    """Start brokers and load, kill the leader of most, bring it back. Raises DemoError."""
    out.mkdir(parents=True, exist_ok=True)
    data = out / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    with ExitStack() as stack:
        metadata = stack.enter_context(_embedded(data) if embedded else _zookeeper(data))
        brokers = stack.enter_context(Brokers(data, REPLICAS, metadata))
        print(f"three brokers at {brokers.bootstrap}, metadata in {metadata}")
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 2})
        _create(admin)
        load = Load(brokers.bootstrap, TOPIC)
        stack.callback(load.close)
        load.start()
        time.sleep(seconds)
        victim, controller = _leader(admin), admin.list_topics(timeout=10).controller_id
        what = f"broker {victim} killed (leader{', controller' if victim == controller else ''})"
        print(f"kill -9: {what}")
        killed = time.monotonic()
        brokers.kill(victim)
        time.sleep(seconds)
        brokers.start(victim)
        events = [(killed, what), (time.monotonic(), f"broker {victim} started again")]
        _wait(lambda: _in_sync(admin) == PARTITIONS, "all replicas to be in sync again")
        events.append((time.monotonic(), "all replicas in sync"))
        time.sleep(min(2.0, seconds))
        load.finish()
        outcome = outcome_of(load, killed, events, _end_offsets(brokers.bootstrap), "")
    return _told(outcome, victim, out)


def _told(outcome: Outcome, victim: int, out: Path) -> Outcome:
    from dataclasses import replace

    from examples.failover.picture import draw

    line = (
        f"broker {victim} killed: {outcome.gap_s * 1000:.0f} ms until the next acknowledged write, "
        f"{max(outcome.took_ms):.0f} ms for the slowest; "
        f"of {len(outcome.acknowledged_s):,} acknowledged {outcome.lost} lost, {outcome.doubled_in_log} doubled"
    )
    picture = out / "failover.png"
    draw(replace(outcome, title=line), picture)
    print(line)
    print(f"picture: {picture}")
    return outcome


@contextmanager
def _embedded(data: Path) -> Iterator[str]:
    yield f"embedded:{data / 'metadata'}"


@contextmanager
def _zookeeper(data: Path) -> Iterator[str]:
    """ZooKeeper where it can be had, else the store in a file."""
    from tools.zookeeper import ZooKeeperServers

    try:
        servers = ZooKeeperServers(data / "zookeeper").start()
    except RuntimeError as error:
        print(f"without ZooKeeper: {error}")
        yield f"embedded:{data / 'metadata'}"
        return
    try:
        yield servers.location()
    finally:
        servers.stop()


def _create(admin: AdminClient) -> None:
    _wait(lambda: len(admin.list_topics(timeout=10).brokers) == REPLICAS, "three brokers")
    settings = {"min.insync.replicas": "2"}
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICAS, config=settings)]).values():
        future.result(WAIT_S)
    _wait(lambda: _in_sync(admin) == PARTITIONS, "all replicas to be in sync")


def _in_sync(admin: AdminClient) -> int:
    topic = admin.list_topics(TOPIC, timeout=10).topics[TOPIC]
    return sum(len(each.isrs) == REPLICAS and each.leader >= 0 for each in topic.partitions.values())


def _leader(admin: AdminClient) -> int:
    return int(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader)


def _end_offsets(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 2})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(TOPIC, each), timeout=10)[1] for each in range(PARTITIONS)
        )
    finally:
        consumer.close()


def _wait(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > end:
            raise DemoError(f"waited {WAIT_S} s for {what}")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
