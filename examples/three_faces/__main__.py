"""One group, three protocols: each job is added by a client of one, given back by a worker of one, finished by another.

Exit code 0: every job went the way it was to go, and nothing is pending. 1: not so, or the example failed.
"""

import argparse
import shutil
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

from examples.flights.broker import Broker
from examples.flights.failure import DemoError
from examples.flights.processes import adopt_orphans, end_all_children
from examples.three_faces.workers import Kafka, Nsq, Redis, Worker, publish
from ottla.client import SyncProducer

KEY = "jobs"
GROUP = "workers"
COLUMNS = f"{'JOB':<8}{'ADDED BY':<10}{'GIVEN BACK BY':<15}{'FINISHED BY':<13}{'DELIVERIES':<12}PENDING AFTER IT"


def main() -> int:
    """Run it, say what came of it, and leave nothing running."""
    parser = argparse.ArgumentParser(prog="python -m examples.three_faces", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/three_faces"), help="where the broker keeps its data")
    arguments = parser.parse_args()
    adopt_orphans()
    try:
        mistakes = _run(arguments.out)
    except DemoError as error:
        print(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        print("stopped")
        return 130
    finally:
        end_all_children()
    for mistake in mistakes:
        print(f"wrong: {mistake}")
    if not mistakes:
        print("each job was done once, whoever had it before")
    return 1 if mistakes else 0


def _run(out: Path) -> list[str]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with Broker(out / "data", out / "broker.log", has_nsq=True, has_redis=True) as broker:
        redis_port, nsq_port = (int(each.rpartition(":")[2]) for each in (broker.redis, broker.nsq))
        workers: dict[str, Callable[[], Worker]] = {
            "Redis": lambda: Redis(redis_port, KEY, GROUP),
            "Kafka": lambda: Kafka(broker.bootstrap, KEY, GROUP),
            "NSQ": lambda: Nsq(nsq_port, KEY, GROUP),
        }
        with Redis(redis_port) as redis:
            redis.call("XGROUP", "CREATE", KEY, GROUP, "0", "MKSTREAM")
            print(COLUMNS)
            with SyncProducer(broker.bootstrap) as producer:
                add: dict[str, Callable[[bytes], object]] = {
                    "Redis": lambda job: redis.call("XADD", KEY, "*", "job", job),
                    "Kafka": lambda job: producer.send(KEY, job).result(),
                    "NSQ": lambda job: publish(nsq_port, KEY, job),
                }
                return [
                    mistake
                    for number, ways in enumerate(product(add, workers, workers), 1)
                    for mistake in _one_job(redis, add, workers, f"job {number}", *ways)
                ]


def _one_job(
    redis: Redis,
    add: dict[str, Callable[[bytes], object]],
    workers: dict[str, Callable[[], Worker]],
    job: str,
    source: str,
    first: str,
    second: str,
) -> list[str]:
    """Have a job added by one client, given back by one worker and finished by another; what went wrong."""
    add[source](job.encode())
    with workers[first]() as worker:
        taken = worker.take()
        worker.give_back()
    with workers[second]() as worker:
        again = worker.take()
        rows = redis.call("XPENDING", KEY, GROUP, "-", "+", "10")
        worker.finish()
    left = redis.call("XPENDING", KEY, GROUP)[0]
    deliveries = rows[0][3] if rows else 0
    print(f"{job:<8}{source:<10}{first:<15}{second:<13}{deliveries:<12}{left}")
    mistakes = [f"{name} got {got}, not {job}" for name, got in ((first, taken), (second, again)) if got != job]
    if [row[3] for row in rows] != [2]:
        mistakes.append(f"{job} was pending as {rows} while {second} had it")
    if left:
        mistakes.append(f"{left} pending after {job}")
    return mistakes


if __name__ == "__main__":
    sys.exit(main())
