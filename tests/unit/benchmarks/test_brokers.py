"""A broker's port is one that no client of the same machine can be given while it starts."""

from pathlib import Path

from benchmarks.beside_kafka.brokers import free_ports


def test_ports_are_free_distinct_and_outside_what_clients_are_given():
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < first_of_clients
