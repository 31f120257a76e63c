"""Runs pipelines: a query for each sink, its checkpoint, restarts after failures."""
