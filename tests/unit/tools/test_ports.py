"""A server's port is one that no client of the same machine can be given while it starts."""

import pytest

from tools.ports import adjacent_free_ports, free_ports, ports_of_clients, ports_of_servers, ports_of_worker


def test_ports_are_free_distinct_and_those_of_servers():
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert set(ports) <= set(ports_of_servers(*ports_of_clients()))


def test_no_port_is_given_twice():
    assert not set(free_ports(50)) & set(free_ports(50))


def test_processes_of_a_test_run_choose_among_ports_of_their_own():
    every = ports_of_servers(32_768, 60_999)
    parts = [set(ports_of_worker(every, f"gw{number}")) for number in range(16)]
    assert sum(map(len, parts)) == len(set().union(*parts)) > len(every) - 16
    assert ports_of_worker(every, "") == every


def test_ports_that_follow_one_another_are_those_of_one_process_as_well(monkeypatch: pytest.MonkeyPatch):
    for worker in ("", "gw0", "gw15"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        ports = adjacent_free_ports(3)
        assert ports == list(range(ports[0], ports[0] + 3))
        assert set(ports) <= set(ports_of_worker(ports_of_servers(*ports_of_clients()), worker))
        assert not set(ports) & set(free_ports(50))


def test_servers_are_given_what_clients_are_not_wherever_a_system_has_them():
    assert ports_of_servers(32_768, 60_999) == range(12_000, 32_768)
    assert ports_of_servers(1_024, 60_999) == range(61_000, 65_536)
    assert ports_of_servers(1_024, 65_535) == range(12_000, 65_536)
