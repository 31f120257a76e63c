"""Simulates whole brokers and clients in one thread, with a seeded scheduler, network, disks and store."""
