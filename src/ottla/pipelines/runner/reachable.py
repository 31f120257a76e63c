"""Whether workers on other machines can come to where the brokers say that they are."""

from collections.abc import Iterable

from ottla.client.address import Address
from ottla.pipelines.masters import is_loopback, is_this_machine
from ottla.pipelines.runner.checkpoint import CheckpointError


def require_reachable(master: str | None, brokers: Iterable[Address]) -> None:
    """Raises CheckpointError where a broker names an address that workers on other machines take for their own."""
    if master is None or is_this_machine(master):
        return
    for broker in brokers:
        if is_loopback(broker.host):
            raise CheckpointError(
                f"the workers of {master} cannot reach the broker at {broker}, which is what it tells clients to come"
                f" to: start it with `ottla serve --kafka :{broker.port} --advertise HOST:{broker.port}`, where HOST is"
                " this machine's name for others, and name it so with --bootstrap"
            )
