"""Ways in which a broker loses what it has not made safe."""

import time
from random import Random
from typing import Protocol

from chaos.loop_image import LoopImage
from tests.broker_process import BrokerProcess


class Crash(Protocol):
    """Kills a broker; afterwards its process is gone and its directory is as the next one finds it."""

    def __call__(self, broker: BrokerProcess) -> None: ...


def kill(broker: BrokerProcess) -> None:
    """kill -9: what was written is in the page cache, what was queued is gone."""
    broker.kill()


class PowerCut:
    """The file system is shut down under the broker: what was not synced is gone."""

    def __init__(self, image: LoopImage) -> None:
        self._image = image

    def __call__(self, broker: BrokerProcess) -> None:
        """Cut, end the process, and find what is on the disk."""
        self._image.cut_power()
        broker.kill()
        self._image.mount_again()


def start_and_die(broker: BrokerProcess, crash: Crash, rng: Random) -> None:
    """The broker dies once more while it starts."""
    broker.spawn()
    time.sleep(rng.uniform(0.05, 0.8))
    crash(broker)
