"""Partition roles: who leads, what is committed, who may read what."""
