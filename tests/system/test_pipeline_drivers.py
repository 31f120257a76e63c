"""Two drivers of one pipeline: the second is refused, one that seems dead is followed, and fenced when it was not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from ottla.client.blocking import BlockingClient
from ottla.pipelines.runner.checkpoint import CheckpointError
from ottla.pipelines.runner.checkpoint_lease import CheckpointLeases, Driver, FencedError
from ottla.pipelines.runner.lease_log import LeaseLog
from ottla.runtime.clock import SystemClock

_names = count()


@contextmanager
def leases_of(bootstrap: str, host: str, lease_ms: int = 60_000) -> Iterator[CheckpointLeases]:
    """The leases of a driver on another machine."""
    driver = Driver(f"driver on {host}", host, 4711, f"machine of {host}", 0)
    with (
        BlockingClient(bootstrap) as client,
        CheckpointLeases(LeaseLog(client, SystemClock()), driver, SystemClock(), lease_ms=lease_ms) as leases,
    ):
        yield leases


def test_brokers_tell_two_drivers_apart(broker):
    name, told = f"checkpoint {next(_names)}", []
    with leases_of(broker.bootstrap, "a") as first, leases_of(broker.bootstrap, "b") as second:
        first.take({name: "/shared/c"}, told.append)

        def heard(line: str) -> None:
            told.append(line)
            first.confirm(name)

        with pytest.raises(CheckpointError, match=r"/shared/c is in use by another driver \(process 4711 on a, since"):
            second.take({name: "/shared/c"}, heard)
        assert len(told) == 1
        with leases_of(broker.bootstrap, "c", lease_ms=0) as third:
            third.take({name: "/shared/c"}, told.append)
            with pytest.raises(FencedError, match=r"another driver \(process 4711 on c"):
                first.confirm(name)
            third.confirm(name)
    with leases_of(broker.bootstrap, "d") as fourth:
        fourth.take({name: "/shared/c"}, told.append)
        fourth.confirm(name)
    assert len(told) == 2
