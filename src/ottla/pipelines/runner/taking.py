"""Takes the leases of a driver's checkpoints at the start, renews them, and releases them at the end."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from ottla.client.blocking import BlockingClient
from ottla.client.errors import BrokerError, ClientError
from ottla.pipelines.runner.checkpoint import CheckpointError, directory_of, name_of
from ottla.pipelines.runner.checkpoint_lease import CheckpointLeases, Driver, FencedError
from ottla.pipelines.runner.lease_log import TOPIC, LeaseLog
from ottla.pipelines.runner.reachable import require_reachable
from ottla.pipelines.spec.model import PipelineSpec
from ottla.runtime.clock import SystemClock

CLIENT: Final[dict[str, int | str]] = {
    "client_id": "ottla-pipeline",
    "api_timeout_ms": 10_000,
    "request_timeout_ms": 5_000,
}
"""The options of clients; a driver that ends waits this long for unreachable brokers."""
_AGAIN_SECONDS: Final = 1.0

Waits = Callable[[str, str], None]
"""Called with the name of a pipeline and what it waits for, in one line."""
Lost = Callable[[str, FencedError], None]
"""Called with a query, `PIPELINE.SINK`, whose checkpoint another driver has taken over."""


class Taken:
    """The leases of a driver, by query."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[CheckpointLeases, str]] = {}
        self._fenced: dict[str, FencedError] = {}
        self._told: Lost | None = None

    def fence(self, query: str) -> Callable[[], None]:
        """A function that raises FencedError if another driver has the checkpoint of the query, and ClientError while
        that is not known.
        """
        leases, name = self._leases[query]
        return lambda: leases.confirm(name)

    def tell(self, lost: Lost) -> None:
        """Sets the function that is called, in any thread, for each checkpoint that another driver takes over."""
        self._told = lost
        for query, error in [*self._fenced.items()]:
            lost(query, error)

    def keep(self, leases: CheckpointLeases, queries: Mapping[str, str]) -> None:
        """Renew the leases of one cluster. `queries` has the query of each name."""
        self._leases.update({query: (leases, name) for name, query in queries.items()})

        def lost(name: str, error: FencedError) -> None:
            self._fenced[queries[name]] = error
            if self._told is not None:
                self._told(queries[name], error)

        leases.keep(lost)


def take_in_brokers(
    specs: Sequence[PipelineSpec],
    bootstrap: Mapping[str, str],
    stack: ExitStack,
    waits: Waits,
    master: str | None = None,
) -> Taken:
    """Take the leases of all sinks until the stack is closed. Checkpoints in directories must be locked already.

    Brokers that are away are waited for. Raises CheckpointError where a checkpoint is in use, and where workers of
    `master` cannot reach the brokers; then none is taken.
    """
    taken, driver, clock = Taken(), Driver.here(), SystemClock()
    for where in dict.fromkeys(bootstrap[spec.name] for spec in specs):
        here = [spec for spec in specs if bootstrap[spec.name] == where]
        directories = {f"{spec.name}.{sink.name}": directory_of(spec, sink) for spec in here for sink in spec.sinks}
        queries = {name_of(directory): query for query, directory in directories.items()}
        wanted = {name: directories[query] for name, query in queries.items()}
        client = stack.enter_context(BlockingClient(where, **CLIENT))
        leases = stack.enter_context(CheckpointLeases(LeaseLog(client, clock), driver, clock))
        _take(leases, wanted, partial(waits, here[0].name))
        require_reachable(master, [node.address for node in client.cluster().brokers.values()])
        taken.keep(leases, queries)
    return taken


@contextmanager
def held(directories: Iterable[Path], client: BlockingClient, waits: Callable[[str], None]) -> Iterator[None]:
    """Hold the leases of checkpoints for a short change, as a context manager; their files are locked, or were
    found not to be. Raises CheckpointError where a driver uses one, and ClientError.
    """
    wanted = {name_of(str(directory)): str(directory) for directory in directories if directory.is_dir()}
    clock = SystemClock()
    with CheckpointLeases(LeaseLog(client, clock), Driver.here(), clock) as leases:
        if wanted:
            leases.take(wanted, waits, frozenset(wanted))
        yield


def _take(leases: CheckpointLeases, wanted: Mapping[str, str], waits: Callable[[str], None]) -> None:
    locked = frozenset(name for name, directory in wanted.items() if "://" not in directory)
    told: str | None = None
    while True:
        try:
            return leases.take(wanted, waits, locked)
        except ClientError as error:
            if isinstance(error, BrokerError) and not error.retriable:
                raise CheckpointError(
                    f"the checkpoint {next(iter(wanted.values()))} cannot be taken in the brokers, which keep in the"
                    f" topic {TOPIC} who uses it: {error}"
                ) from error
            if str(error) != told:
                told = str(error)
                waits(told)
        threading.Event().wait(_AGAIN_SECONDS)
