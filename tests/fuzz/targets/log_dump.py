"""`ottla log dump` over any file: lines that a terminal takes as lines, or an error that is said in one.

which file, 1 byte | how: bit 0 batches have their lengths, magic and checksums made right, bit 1 as JSON | content
"""

import contextlib
import io
import tempfile
from pathlib import Path

from click.testing import CliRunner

from ottla.cli import coordinator_text, log_files
from ottla.cli.failure import report
from ottla.cli.log_dump import log_dump
from tests.fuzz.targets.batches import sealed

LOOKED_INTO = (coordinator_text, log_files)
"""The command imports them when it runs, which would be too late for the fuzzer to see their lines."""

FILES = (
    "orders-0/00000000000000000000.log",
    "__consumer_offsets-0/00000000000000000000.log",
    "orders-0/00000000000000000000.index",
    "orders-0/00000000000000000000.timeindex",
    "orders-0/00000000000000000000.txnindex",
    "orders-0/00000000000000000007.snapshot",
    "orders-0/leader-epoch-checkpoint",
    "orders-0/partition.metadata",
    "recovery-point-offset-checkpoint",
    "meta.properties",
)


def check(data: bytes) -> None:
    """See the top of the file."""
    if len(data) < 2:
        return
    content = sealed(data[2:]) if data[1] & 1 else data[2:]
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as name:
        path = Path(name) / FILES[data[0] % len(FILES)]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        shown = CliRunner().invoke(log_dump, [str(path), "--records", *(["--json"] if data[1] & 2 else [])])
    if shown.exception is not None and not isinstance(shown.exception, SystemExit):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            report(shown.exception, debug=False)
        line, end, rest = said.getvalue().partition("\n")
        assert line.isprintable(), line
        assert (end, rest) == ("\n", ""), said.getvalue()
        if "this is a bug" in line:
            raise shown.exception
    assert all(line.isprintable() for line in shown.output.split("\n")), shown.output
