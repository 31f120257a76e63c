"""Whole brokers and clients in one thread, under one seeded scheduler: their code, a simulated world around it."""
