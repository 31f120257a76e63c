"""The generator of the message classes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ottla.protocol

pytestmark = pytest.mark.slow

TOOL = Path(__file__).parents[3] / "tools" / "generate_protocol.py"


def run(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the tool on a copy of the package."""
    program = (
        "import runpy, sys; from pathlib import Path; import ottla.protocol.schema as schema;"
        f"schema.SCHEMA_DIRECTORY = Path({str(source / 'schemas')!r});"
        f"sys.argv = ['generate_protocol', *{list(arguments)!r}];"
        f"runpy.run_path({str(TOOL)!r}, run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of ottla.protocol that a test may change."""
    copy = tmp_path / "protocol"
    shutil.copytree(Path(ottla.protocol.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_what_is_committed_is_fresh() -> None:
    result = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_changed_table_is_noticed_and_written(package: Path) -> None:
    table = package / "schemas" / "messages" / "heartbeat.schema"
    table.write_text(table.read_text().replace("GenerationId", "Generation  "))
    check = run(package, "--check")
    assert check.returncode == 1
    assert check.stderr == "messages/heartbeat.py is not what its table says; run tools/generate_protocol.py\n"
    assert run(package).stdout == "wrote messages/heartbeat.py\n"
    assert "    generation: int = 0  # int32\n" in (package / "messages" / "heartbeat.py").read_text()
    assert run(package, "--check").returncode == 0


def test_a_module_without_a_table_is_noticed_and_removed(package: Path) -> None:
    (package / "schemas" / "messages" / "heartbeat.schema").unlink()
    assert run(package, "--check").returncode == 1
    assert run(package).stdout == "removed messages/heartbeat.py\n"
    assert not (package / "messages" / "heartbeat.py").exists()


def test_what_is_written_is_in_the_format_of_the_project() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", Path(ottla.protocol.__file__).parent],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
