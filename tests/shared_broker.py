"""The broker that tests share: one that is alone, or one of a cluster (`make conformance BROKERS=3`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster

BROKERS = int(os.environ.get("OTTLA_BROKERS", "1"))


@contextmanager
def shared_broker(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A running broker. In a cluster it is one that does not decide, and topics have a replica on every broker."""
    if BROKERS == 1:
        with BrokerProcess(directory / "data", dict(settings or {})) as process:
            yield process
        return
    with Cluster(directory, BROKERS, {**(settings or {}), "default.replication.factor": str(BROKERS)}) as cluster:
        cluster.wait_until_registered()
        controller = cluster.controller
        yield next(broker for broker in cluster.brokers.values() if broker is not controller)
