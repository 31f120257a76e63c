"""Runs tests with a kernel that AddressSanitizer watches.

    python -m tools.sanitized tests/unit/network/test_interleavings.py -m "not long"       arguments are those of pytest

The kernel is built once more, into build/asan, and the package copied beside it. Its runtime is gcc's, loaded before
Python, which itself is not instrumented but takes each object by malloc: so a kernel that reads or writes beside its
own memory, or a buffer of Python's, or after it was given back, ends the run with a report. Leaks are not looked for,
since Python leaves at its end what it holds.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/asan"
HOST = re.compile(r"^host: (?P<triple>\S+)$", re.MULTILINE)
KERNEL = "ottla/native/_kernel.abi3.so"
# Link-time optimisation is for speed, and takes longer than all the rest.
PROFILE = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "2",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
}
SANITIZER = "detect_leaks=0:halt_on_error=1:allocator_may_return_null=1"


def said_by(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build() -> Path:
    """A directory to import the package from, with the kernel of now."""
    triple = HOST.search(said_by("rustc", "-vV"))
    assert triple is not None
    target_dir = Path(os.environ.get("OTTLA_ASAN_BUILD", BUILD / "target"))
    environment = {
        **os.environ,
        **PROFILE,
        "RUSTC_BOOTSTRAP": "1",  # the sanitizer is no stable option, but every stable compiler ships it
        "RUSTFLAGS": "-Zsanitizer=address -Cdebuginfo=1",
        "PYO3_PYTHON": sys.executable,
        "CARGO_TARGET_DIR": str(target_dir),
    }
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--lib", "--features", "extension-module"]
    where = ["--target", triple["triple"], "--manifest-path", str(ROOT / "rust/Cargo.toml")]
    subprocess.run([*command, *where], check=True, env=environment)
    package = BUILD / "src"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(target_dir / triple["triple"] / "release/lib_kernel.so", package / KERNEL)
    return package


def main(arguments: list[str]) -> int:
    """Build, and run pytest."""
    package = build()
    environment = {
        **os.environ,
        "LD_PRELOAD": said_by("gcc", "-print-file-name=libasan.so"),
        "ASAN_OPTIONS": SANITIZER,
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)]),
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
