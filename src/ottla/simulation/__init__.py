"""A cluster in one thread, driven by a seed: what production decides, under faults that production rarely has."""
