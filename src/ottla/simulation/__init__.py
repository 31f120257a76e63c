"""Simulates a cluster in one thread, from a seed: production's decisions, under many faults."""
