"""What a machine lacks is said before anything is installed, and Java is asked for where Spark is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "require"
BASH = shutil.which("bash")


@pytest.fixture
def machine(tmp_path: Path):
    """A machine that has Python and what is named."""

    def require(*arguments: str, has: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        (tmp_path / "python3").symlink_to(sys.executable)
        for name in has:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        assert BASH is not None
        environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
        return subprocess.run(
            [BASH, str(TOOL), *arguments],
            env={**environment, "PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    return require


def test_the_broker_needs_no_java(machine):
    done = machine(has=("cargo",))
    assert (done.returncode, done.stderr) == (0, "")


def test_spark_needs_java(machine):
    done = machine("java", has=("cargo",))
    assert done.returncode == 1
    assert done.stderr.startswith("ottla: java was not found, which runs Spark; install a Java 17")


def test_where_there_is_java_nothing_is_said(machine):
    assert machine("java", has=("java",)).returncode == 0


def test_the_kernel_needs_cargo(machine):
    done = machine()
    assert done.returncode == 1
    assert done.stderr.startswith("ottla: cargo was not found, which builds the kernel; ")
