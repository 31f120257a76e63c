"""The hash of a run: two runs of a schedule are equal if their hashes are."""

import hashlib

from ottla.simulation.running import Result


def trace_hash(result: Result) -> str:
    """SHA-256 of every event of a traced run, in order."""
    assert result.world.trace is not None, "only a traced run has a trace"
    digest = hashlib.sha256()
    for event in result.world.trace:
        digest.update(repr(event).encode())
        digest.update(b"\n")
    return digest.hexdigest()
