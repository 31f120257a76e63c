"""Which addresses of brokers are of no use to workers on other machines."""

import pytest

from ottla.client.address import Address
from ottla.pipelines.masters import is_loopback
from ottla.pipelines.runner.checkpoint import CheckpointError
from ottla.pipelines.runner.reachable import require_reachable


def brokers(*hosts: str) -> list[Address]:
    return [Address(host, 9092) for host in hosts]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost"])
def test_a_broker_that_names_its_own_machine_is_refused_with_what_to_do(host):
    with pytest.raises(CheckpointError, match=rf"workers of spark://m:7077 cannot reach .*{host}:9092.*--advertise"):
        require_reachable("spark://m:7077", brokers("10.0.0.1", host))


@pytest.mark.parametrize("master", [None, "local[2,4]", "local-cluster[2,1,512]", "spark://127.0.0.1:7077"])
def test_workers_of_this_machine_reach_it(master):
    require_reachable(master, brokers("127.0.0.1"))


@pytest.mark.parametrize("master", ["spark://a:7077,127.0.0.1:7077", "yarn", "k8s://https://127.0.0.1:6443"])
def test_workers_that_may_be_elsewhere_do_not(master):
    with pytest.raises(CheckpointError):
        require_reachable(master, brokers("127.0.0.1"))
    require_reachable(master, brokers("10.0.0.1", "broker-1"))


def test_names_are_not_looked_up():
    assert not is_loopback("localhost.example.org")
