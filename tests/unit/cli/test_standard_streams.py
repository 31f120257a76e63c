"""What commands write to their standard output."""

import io
import sys

import click
import pytest

from ottla.cli.standard_streams import write_whole


class Pipe(io.RawIOBase):
    """Takes a few bytes at a time, as a pipe does whose reader is slow."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.taken += bytes(data[:10])
        return min(10, len(data))


def test_nothing_is_lost_to_a_pipe_that_takes_a_part(monkeypatch: pytest.MonkeyPatch):
    text, stream = "ä" * 100_000, unbuffered(pipe := Pipe())
    monkeypatch.setattr(sys, "stdout", stream)
    write_whole()
    click.echo(text)
    assert pipe.taken.decode() == text + "\n"


def test_bytes_of_names_that_are_no_text_are_written_as_they_came(monkeypatch: pytest.MonkeyPatch):
    stream = unbuffered(pipe := Pipe())
    monkeypatch.setattr(sys, "stdout", stream)
    write_whole()
    click.echo("caf\udce9")
    assert pipe.taken == b"caf\xe9\n"


def test_a_standard_output_that_is_buffered_stays(monkeypatch: pytest.MonkeyPatch):
    stream = io.TextIOWrapper(io.BufferedWriter(Pipe()))  # type: ignore[type-var]
    monkeypatch.setattr(sys, "stdout", stream)
    write_whole()
    assert sys.stdout is stream


def unbuffered(pipe: Pipe) -> io.TextIOWrapper:
    """Standard output of a Python that does not buffer: `python -u`, `PYTHONUNBUFFERED=1`."""
    return io.TextIOWrapper(pipe, encoding="utf-8", errors="surrogateescape", write_through=True)  # type: ignore[arg-type]
