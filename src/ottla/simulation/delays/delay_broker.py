"""A broker of the simulation: its clock, its disk with bucket files, and who moves while it believes that it leads."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.model.topic_partition import TopicPartition
from ottla.native import BucketMerge, DelayIndex, TopicRules
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.server.delay_buckets import DIRECTORY
from ottla.server.delay_manifest import NAME
from ottla.server.delay_mover import DelayMover
from ottla.server.delay_outbox import Target
from ottla.simulation.delays.delay_log import DelayLog, LedPartition
from ottla.simulation.delays.delay_replicas import Replica
from ottla.simulation.delays.delay_target import TARGET, DelayTarget
from ottla.simulation.delays.delay_writer import Requests, SimulatedProducer
from ottla.simulation.whole.clock import HostClock
from ottla.simulation.whole.disk import HostDisk, SimulatedDisk
from ottla.simulation.whole.event_loop import SimulatedLoop
from ottla.simulation.whole.process import Life, Process

TARGET_RULES: Final = TopicRules(max_batch_bytes=40_000, max_decompressed_bytes=1 << 20)
OWN_RULES: Final = TopicRules(max_batch_bytes=1 << 20, max_decompressed_bytes=1 << 20)
_FILE_END: Final = b"OTLBCKT1"


class ReadClock(HostClock):
    """Remembers the latest time that it told."""

    __slots__ = ("latest_ms",)

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(loop)
        self.latest_ms = 0

    def now_ms(self) -> int:
        """The wall clock."""
        now_ms = super().now_ms()
        self.latest_ms = max(self.latest_ms, now_ms)
        return now_ms


class _Tasks(Tasks):
    """What a thread does is done at once, a while later; the disk may be full, and the broker may end in it."""

    def __init__(self, broker: "DelayBroker") -> None:
        super().__init__("simulation")
        self._broker = broker

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """As a thread."""
        return await super().in_thread(self._broker.work, function, *args, **kwargs)


class DelayBroker:
    """Belongs to the world; what it runs belongs to its process."""

    def __init__(
        self,
        loop: SimulatedLoop,
        rng: Rng,
        number: int,
        directory: Path,
        *,
        target: Callable[[], DelayTarget],
        default_delay_ms: Callable[[], int],
        on_trouble: Callable[[], None],
        on_death_in_thread: "Callable[[DelayBroker], None]",
    ) -> None:
        """`on_trouble` is called when a request of it gets lost, `on_death_in_thread` when it is to end."""
        self._loop = loop
        self._rng = rng
        self._target = target
        self._default_delay_ms = default_delay_ms
        self._on_death_in_thread = on_death_in_thread
        self.clock = ReadClock(loop)
        (directory / "data").mkdir(parents=True)
        self.disk = HostDisk(directory / "data", rng, self.clock)
        log_directory = directory / "data" / "later-0"
        log_directory.mkdir()
        self.replica = Replica(number, DelayLog(str(log_directory)))
        self.process: Process | None = None
        self.dead: list[Process] = []
        """They are kept until the run is over."""
        self.requests = Requests(loop, rng, on_trouble)
        self.popped = (0, 0)
        """When the mover last took what is due: the monotonic clock, and what the wall clock had told by then."""
        self.dies_in_thread = False
        self._known: set[str] = set()
        self._fresh: list[str] = []
        self._moving: asyncio.Task[None] | None = None
        self._ending: list[asyncio.Task[None]] = []
        self._found_first: dict[TopicPartition, tuple[int, CommittedOffset | None]] = {}

    @property
    def is_up(self) -> bool:
        """Whether its process lives, running or paused."""
        return self.process is not None

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.life is Life.RUNNING

    def start(self) -> None:
        """Start a process."""
        process = self.process = Process(f"broker {self.replica.number}", str(self.replica.number))
        process.run(self._begin, process)

    def _begin(self, process: Process) -> None:
        self._disk = SimulatedDisk(self.disk, process)
        self._tasks = _Tasks(self)
        timer = Timer(self.clock, self._loop.call_later)
        self._environment = Environment(self.clock, self._rng, timer, self._tasks, self._loop.call_soon)
        self._moving, self._ending = None, []
        self._found_first = {}
        self._known = set(self._names())

    def kill(self, *, power: bool) -> None:
        """End the process, and with the power what is not on the disk."""
        process, self.process = self.process, None
        assert process is not None, "it is up"
        self._loop.kill(process)
        self.dead.append(process)
        for path in self._paths():
            if path in self._fresh or not self._is_whole(path):
                size = Path(path).stat().st_size
                os.truncate(path, self._rng.randbelow(size + 1))
        self._fresh = []
        if power:
            self.disk.cut_power()

    def lead(self, led: LedPartition) -> None:
        """Move what is due from now on, as `DelayTopics` has somebody move it."""
        process = self.process
        if process is not None:
            self._loop.as_process(process, self._lead, led)

    def resign(self) -> None:
        """Move nothing more."""
        process = self.process
        if process is not None:
            self._loop.as_process(process, self._resign)

    def _lead(self, led: LedPartition) -> None:
        self._resign()
        ending = self._ending = [each for each in self._ending if not each.done()]
        self._moving = self._tasks.spawn(self._move(led, tuple(ending)), "deliver")

    def _resign(self) -> None:
        if self._moving is not None:
            self._moving.cancel()
            self._ending.append(self._moving)
            self._moving = None

    async def _move(self, led: LedPartition, ending: "tuple[asyncio.Task[None], ...]") -> None:
        if ending:
            await asyncio.wait(ending)

        async def become(_place: object) -> Any:
            return await SimulatedProducer.become(self._target(), self.requests, led.leader_epoch, lambda: self.popped)

        mover = DelayMover(
            cast("Partition", led),
            TARGET,
            self._default_delay_ms(),
            become,
            self._environment,
            self._disk,
            look_up=self._look_up,
            partition_count=lambda: 1,
            ensure_topic=self._ensure,
            keep_log_start=self._keep,
            found_first=self._found_first,
        )
        await mover.run()

    def _look_up(self, name: str) -> Target | None:
        target = self._target()
        if name == TARGET:
            return Target(name, target.partition_count, TARGET_RULES) if target.is_there else None
        return Target(name, 1, OWN_RULES)

    async def _ensure(self, name: str, partition_count: int) -> None:
        del name, partition_count

    async def _keep(self, partition: Partition) -> None:
        del partition

    # --- threads and files ------------------------------------------------------------------------------------------

    def work(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a thread does."""
        name, of = getattr(function, "__name__", ""), getattr(function, "__self__", None)
        is_writing = isinstance(of, DelayIndex | BucketMerge) and name in ("flush", "step")
        if name == "pop":
            self.popped = self.clock.monotonic_ms(), self.clock.latest_ms
            self.clock.latest_ms = 0
        if is_writing:
            self.disk.require_sound(grows=True)
        try:
            return function(*args, **kwargs)
        finally:
            new = [path for path in self._paths() if path not in self._known]
            for path in new:
                self.disk.made(path)
            self._known = set(self._names())
            if self.dies_in_thread and new:
                self.dies_in_thread = False
                self._fresh = new
                self._loop.in_world(0.0, self._on_death_in_thread, self)

    def _names(self) -> list[str]:
        directory = f"{self.replica.log.directory}/{DIRECTORY}"
        try:
            names = sorted(each.name for each in Path(directory).iterdir())
        except FileNotFoundError:
            return []
        return [f"{directory}/{name}" for name in names]

    def _paths(self) -> list[str]:
        """Of bucket files."""
        return [path for path in self._names() if not Path(path).name.startswith(NAME)]

    def _is_whole(self, path: str) -> bool:
        return Path(path).read_bytes().endswith(_FILE_END)

    def damage(self) -> bool:
        """A bucket file is lost, or a bit of it flips; False when there is none."""
        paths = self._paths()
        if not paths:
            return False
        path = paths[self._rng.randbelow(len(paths))]
        size = Path(path).stat().st_size
        if self._rng.random() < 0.3 or not size:
            self.disk.remove(path)
            return True
        with Path(path).open("rb+") as file:
            at = self._rng.randbelow(size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << self._rng.randbelow(8))]))
        return True
