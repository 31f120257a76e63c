"""What the wall clock has a say in where brokers lead, follow, decide and coordinate.

It may jump by an hour, and nobody is to be fenced, elected or kept waiting by it.
"""

from pathlib import Path

import ottla

SOURCE = Path(ottla.__file__).parent

ASK = {
    # Timestamps of records, and of what is written to coordinators' logs.
    "replication/leader.py",
    "replication/follower.py",
    "coordination/shard_log.py",
    # What outlives a coordinator: since when a transaction goes on, when offsets were committed. Delays are timers.
    "coordination/shard_runner.py",
    "transactions/coordinator.py",
    # How old an image is, which people are told.
    "metadata/store/probe.py",
}

PACKAGES = ("coordination", "groups", "metadata", "network", "peers", "replication", "transactions")


def test_who_asks_the_wall_clock_is_known():
    asking = {
        str(path.relative_to(SOURCE))
        for package in PACKAGES
        for path in (SOURCE / package).rglob("*.py")
        if ".now_ms()" in path.read_text()
    }
    assert asking == ASK
