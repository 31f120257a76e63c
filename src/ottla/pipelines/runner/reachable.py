"""Checks that workers on other machines can connect to the advertised addresses of brokers."""

from collections.abc import Iterable

from ottla.client.address import Address
from ottla.pipelines.masters import is_loopback, is_this_machine
from ottla.pipelines.runner.checkpoint import CheckpointError


def require_reachable(master: str | None, brokers: Iterable[Address]) -> None:
    """Raises CheckpointError if a broker advertises a loopback address and workers run on other machines."""
    if master is None or is_this_machine(master):
        return
    for broker in brokers:
        if is_loopback(broker.host):
            raise CheckpointError(
                f"the workers of {master} cannot reach the broker at {broker}, which is its advertised"
                f" address: start it with `ottla serve --kafka :{broker.port} --advertise HOST:{broker.port}`, where"
                " HOST is this machine's name for others, and name it so with --bootstrap"
            )
