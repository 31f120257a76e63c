r"""The inputs fuzzers start from: one text file a target, one line an input.

    run-of-three \x00\x00\x00\x07 plain text stays as it is, a backslash is \\

The name is what stands before the first space. Printable ASCII stands for itself, any other byte, and a space at the
end, as `\xNN`. So an input can be read, a change of it is a line in a diff, and git keeps one file instead of hundreds.
`rust/src/fuzzing.rs` reads the same files.

python -m tests.fuzz.seed_files TARGET NAME FILE        keeps what is in FILE as a seed
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

DIRECTORY = Path(__file__).parent / "seeds"
_SUFFIX = ".txt"
_ESCAPED = re.compile(rb"\\(\\|x[0-9a-f]{2})")
_NAME = re.compile(r"[!-~]+")


def targets() -> set[str]:
    """The targets that have seeds."""
    return {path.stem for path in DIRECTORY.glob(f"*{_SUFFIX}")}


def read(target: str) -> dict[str, bytes]:
    """The seeds of a target by name, in the order of the file."""
    lines = (DIRECTORY / f"{target}{_SUFFIX}").read_bytes().splitlines()
    return {name.decode(): _unescape(text) for name, _, text in (line.partition(b" ") for line in lines)}


def write(target: str, seeds: Mapping[str, bytes]) -> None:
    """Make these the seeds of a target, sorted by name."""
    DIRECTORY.mkdir(exist_ok=True)
    assert all(map(_NAME.fullmatch, seeds)), "a name is printable ASCII without spaces"
    lines = [name.encode() + b" " + _escape(seeds[name]) + b"\n" for name in sorted(seeds)]
    (DIRECTORY / f"{target}{_SUFFIX}").write_bytes(b"".join(lines))


def unpack(target: str, directory: Path) -> None:
    """Write each seed to a file, as libFuzzer wants them; files of other names go."""
    directory.mkdir(parents=True, exist_ok=True)
    seeds = read(target)
    for path in directory.iterdir():
        if path.name not in seeds:
            path.unlink()
    for name, data in seeds.items():
        (directory / name).write_bytes(data)


def _escape(data: bytes) -> bytes:
    text = b"".join(_ESCAPES[byte] for byte in data)
    return text[:-1] + b"\\x20" if text.endswith(b" ") else text


def _unescape(text: bytes) -> bytes:
    return _ESCAPED.sub(lambda match: b"\\" if match[1] == b"\\" else bytes([int(match[1][1:], 16)]), text)


_ESCAPES = [
    b"\\\\" if byte == ord("\\") else bytes([byte]) if 0x20 <= byte < 0x7F else b"\\x%02x" % byte for byte in range(256)
]


def main() -> None:
    """Keep one input."""
    target, name, path = sys.argv[1:]
    write(target, read(target) | {name: Path(path).read_bytes()})


if __name__ == "__main__":
    main()
