"""A cluster whose brokers have an address each, so that ways between them can be cut; they share a metadata file."""

from contextlib import ExitStack
from pathlib import Path

from chaos.broker_network import BrokerNetwork
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster


class NetworkCluster(Cluster):
    """Brokers that run between `__enter__` and `__exit__`."""

    def __init__(self, directory: Path, count: int, settings: dict[str, str]) -> None:
        super().__init__(directory, count, settings)
        self.network = BrokerNetwork(count)
        self._around = ExitStack()
        for broker_id, broker in self.brokers.items():
            broker.host = self.network.address(broker_id)
            broker.inside = self.network.inside(broker_id)

    def __enter__(self) -> Cluster:
        with ExitStack() as around:
            around.enter_context(self.network)
            around.callback(self.kill)
            self.start()
            self._around = around.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()

    def cut_off(self, broker: BrokerProcess) -> None:
        """Nothing arrives between a broker and the others; clients reach all of them."""
        broker_id = next(number for number, each in self.brokers.items() if each is broker)
        others = [each for each in self.brokers if each != broker_id]
        self.network.cut_out(broker_id, others)
        self.network.cut_in(broker_id, others)
