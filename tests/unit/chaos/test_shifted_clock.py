"""A program's wall clock jumps while it runs, both ways; the clock that only counts on does not."""

import os
import subprocess
import sys
import time
from pathlib import Path

from chaos.shifted_clock import ShiftedClock

HOUR_S = 3600
TELL = "import sys, time\nfor line in sys.stdin: print(time.time(), time.time_ns(), time.monotonic(), flush=True)"


def test_the_wall_clock_jumps_and_the_other_counts_on(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    ) as program:
        for shift_s in (0, HOUR_S, -HOUR_S, 0):
            clock.shift(shift_s)
            asked_at, asked_monotonic = time.time(), time.monotonic()
            program.stdin.write("\n")
            program.stdin.flush()
            told, told_ns, told_monotonic = map(float, program.stdout.readline().split())
            answered_at, answered_monotonic = time.time(), time.monotonic()
            assert asked_at - 1 <= told - shift_s <= answered_at + 1
            assert asked_at - 1 <= told_ns / 1e9 - shift_s <= answered_at + 1
            assert asked_monotonic <= told_monotonic <= answered_monotonic
        program.stdin.close()
