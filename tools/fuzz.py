"""Runs the fuzzers: every target under libFuzzer, with bounded time and memory for each input.

    python -m tools.fuzz                          two minutes over all targets
    python -m tools.fuzz --seconds 3600           an hour
    python -m tools.fuzz --target records --target frames
    python -m tools.fuzz --replay FILE --target records       one input again, with its traceback
    python -m tools.fuzz --keep                   and take what reached new code into tests/fuzz/seeds

The kernel's targets (`rust/src/fuzzing`) are built with libFuzzer's own guidance and AddressSanitizer, into build/fuzz;
those in Python (`tests/fuzz/targets`) run under atheris, which is installed when it is missing. build/fuzz/corpus keeps
what was learned for the next run, build/fuzz/found each input that broke a promise; then the run ends with 1.
"""

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import seed_files

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/fuzz"
SEEDS = BUILD / "seeds"
"""The inputs of tests/fuzz/seeds as files, while a run lasts."""
DEFAULT_SECONDS = 120
HOST = re.compile(r"^host: (?P<triple>\S+)$", re.MULTILINE)
STATISTICS = re.compile(r"#(?P<runs>\d+)\s+\w+\s+cov: (?P<coverage>\d+) ft: \d+ corp: (?P<inputs>\d+)")

# Coverage of edges and comparisons as libFuzzer reads it. The sanitizer is no stable option, but every stable compiler
# ships it.
RUST_FLAGS = (
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
)
IN_MEMORY = "/dev/shm"  # noqa: S108 (each target makes a directory of its own there)
INPUT_BYTES_MAX = 8192
INPUT_SECONDS_MAX = 10
MEMORY_MB_MAX = 1024
ALLOCATION_MB_MAX = 8
"""No input so small earns an allocation so large."""

KERNEL_TARGETS = (
    "batch",
    "codec",
    "messages",
    "produced",
    "records",
    "round_trip",
    "single_fetch",
    "single_produce",
    "sockets",
    "varint",
)
PYTHON_TARGETS = (
    "batches",
    "cli_text",
    "client_metrics",
    "frames",
    "group_records",
    "log_dump",
    "logins",
    "nsq_commands",
    "recovery",
    "redis_commands",
    "requests",
    "share_reads",
    "small_files",
    "strangers",
    "transactions",
)
WEIGHTS = {"varint": 0.25, "round_trip": 0.5, "messages": 2, "records": 2, "requests": 2}
"""Shares of the time; 1 for the others."""


@dataclass(frozen=True)
class Outcome:
    """What a run of one target came to."""

    target: str
    runs: int
    coverage: int
    inputs: int
    found: tuple[Path, ...]
    is_ok: bool
    log: Path

    def __str__(self) -> str:
        line = f"{self.target:<14} {self.runs:>10} runs {self.coverage:>6} edges {self.inputs:>5} inputs  "
        if self.is_ok:
            return line + "ok"
        what = ", ".join(str(path.relative_to(ROOT)) for path in self.found) or "did not run"
        return f"{line}FAILED: {what}; see {self.log.relative_to(ROOT)}"


def build() -> Path:
    """The kernel's fuzzer, built when it is not or no longer up to date."""
    triple = HOST.search(subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout)
    assert triple is not None
    target_dir = Path(os.environ.get("OTTLA_FUZZ_BUILD", BUILD / "target"))
    environment = {
        **os.environ,
        "RUSTC_BOOTSTRAP": "1",
        "RUSTFLAGS": " ".join(RUST_FLAGS),
        "PYO3_PYTHON": sys.executable,
        "CARGO_TARGET_DIR": str(target_dir),
    }
    command = ["cargo", "build", "--quiet", "--locked", "--profile", "fuzz", "--target", triple["triple"]]
    subprocess.run([*command, "--manifest-path", ROOT / "rust/fuzz/Cargo.toml"], check=True, env=environment)
    return target_dir / triple["triple"] / "fuzz/fuzz"


def install_atheris() -> None:
    """Install what the targets in Python need, at its locked version."""
    installed = subprocess.run([sys.executable, "-c", "import atheris"], check=False, capture_output=True)
    if installed.returncode:
        subprocess.run([ROOT / "tools/install", "fuzz"], check=True)


def command_of(target: str, kernel: Path | None) -> tuple[list[str], dict[str, str]]:
    """The program that runs a target, and its environment."""
    # Most of what a target in Python costs is waiting for a disk that nobody will look at.
    directory = {"TMPDIR": IN_MEMORY} if os.access(IN_MEMORY, os.W_OK) else {}
    environment = {**os.environ, **directory, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"}
    if target in PYTHON_TARGETS:
        return [sys.executable, "-m", "tests.fuzz.guided", target], environment
    # The interpreter inside the fuzzer is told where this one finds its modules.
    paths = [environment["PYTHONPATH"], sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    environment |= {
        "OTTLA_FUZZ_TARGET": target,
        "ASAN_OPTIONS": "detect_leaks=0",
        "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR")),
        "PYTHONHOME": sys.base_prefix,
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return [str(kernel)], environment


def limits(target: str) -> list[str]:
    """libFuzzer's options that bound each input."""
    bounds = [f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}", f"-max_len={INPUT_BYTES_MAX}"]
    return bounds if target in PYTHON_TARGETS else [*bounds, f"-malloc_limit_mb={ALLOCATION_MB_MAX}"]


def run(target: str, seconds: int, kernel: Path | None) -> Outcome:
    """Fuzz one target for so long."""
    corpus, found, log = BUILD / "corpus" / target, BUILD / "found" / target, BUILD / f"{target}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    seed_files.unpack(target, SEEDS / target)
    known = set(found.iterdir())
    command, environment = command_of(target, kernel)
    options = [f"-max_total_time={seconds}", "-len_control=20", "-print_final_stats=1", f"-artifact_prefix={found}/"]
    with log.open("w") as file:
        ended = subprocess.run(
            [*command, *options, *limits(target), corpus, SEEDS / target],
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    statistics = list(STATISTICS.finditer(log.read_text(errors="replace")))
    runs, coverage, inputs = (int(statistics[-1][name]) if statistics else 0 for name in ("runs", "coverage", "inputs"))
    new = tuple(sorted(set(found.iterdir()) - known))
    is_ok = ended.returncode == 0 and not new and bool(statistics)
    return Outcome(target, runs, coverage, inputs, new, is_ok, log)


def replay(target: str, path: Path, kernel: Path | None) -> int:
    """One input again, as it comes."""
    command, environment = command_of(target, kernel)
    return subprocess.run([*command, *limits(target), path], cwd=ROOT, env=environment, check=False).returncode


def keep(target: str, kernel: Path | None) -> None:
    """Take the inputs that reach code that no seed reaches, as few and as small as libFuzzer can, into the seeds."""
    command, environment = command_of(target, kernel)
    seeds = seed_files.read(target)
    merge = [*command, "-merge=1", *limits(target), str(SEEDS / target), str(BUILD / "corpus" / target)]
    subprocess.run(merge, cwd=ROOT, env=environment, check=True, capture_output=True)
    number = 0
    for path in sorted((SEEDS / target).iterdir()):
        if path.name not in seeds:
            while f"kept-{number:03}" in seeds:
                number += 1
            seeds[f"kept-{number:03}"] = path.read_bytes()
    seed_files.write(target, seeds)


def main() -> int:
    """Build, run each target for its share, say what came of it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=DEFAULT_SECONDS, help="over all targets, beside the build")
    arguments.add_argument("--target", action="append", choices=(*KERNEL_TARGETS, *PYTHON_TARGETS), default=[])
    arguments.add_argument("--replay", type=Path, metavar="FILE")
    arguments.add_argument("--keep", action="store_true")
    options = arguments.parse_args()
    targets = options.target or [*KERNEL_TARGETS, *PYTHON_TARGETS]
    kernel = build() if set(targets) & set(KERNEL_TARGETS) else None
    if set(targets) & set(PYTHON_TARGETS):
        install_atheris()
    if options.replay is not None:
        return replay(targets[0], options.replay.absolute(), kernel)
    share = options.seconds / sum(WEIGHTS.get(target, 1) for target in targets)
    begun = time.monotonic()
    is_ok = True
    for target in targets:
        outcome = run(target, max(1, round(share * WEIGHTS.get(target, 1))), kernel)
        is_ok = is_ok and outcome.is_ok
        print(outcome, flush=True)
        if options.keep:
            keep(target, kernel)
    print(f"{len(targets)} targets in {time.monotonic() - begun:.0f} s, {'nothing' if is_ok else 'something'} found")
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
