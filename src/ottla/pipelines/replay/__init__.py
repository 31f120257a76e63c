"""Replays: a new version of a pipeline runs over past records, beside production, and both are compared."""
