"""What the documents tell a reader to type does what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.cli.main import run as run_command
from tests.broker_process import READY, BrokerProcess
from tests.system.document import ROOT, block_with, blocks

DEFAULT_ADDRESS = "127.0.0.1:9092"
DATA = "/tmp/ottla"


@pytest.fixture
def shell(broker: BrokerProcess, tmp_path: Path) -> Callable[[str], str]:
    """Runs lines of a document as bash would, with the default address and the data directory those of a test.

    The topics that the documents take for granted are new for each test.
    """

    def run(lines: str) -> str:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", lines.replace(DATA, str(broker.data_dir))],
            cwd=tmp_path,
            env={
                **os.environ,
                "OTTLA_BOOTSTRAP": broker.bootstrap,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run("ottla topic delete --if-exists orders events copy")
    return run


def test_the_first_hour_of_the_readme(
    shell: Callable[[str], str], broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    activate, *lines = block_with("README.md", "ottla topic create orders").splitlines()
    assert activate == ". .venv/bin/activate"
    shown = [shell(line) for line in lines]
    assert "created topic orders with 3 partitions" in shown[0]
    records = sorted(line.split(maxsplit=2)[2] for line in shown[2].splitlines())
    assert records == ['alice {"item":"tea"}', 'bob {"item":"coffee"}']
    assert shown[3].strip() in ('{"item":"tea"}', '{"item":"coffee"}')
    assert "billing" in shown[4]
    assert "orders" in shown[4]
    assert shown[5].startswith("topic orders")
    assert "00000000000000000000.log" in shown[6]
    snippets = [text for text in blocks("README.md", "python") if DEFAULT_ADDRESS in text and "spark" not in text]
    assert [re.findall(r"import (?:.*, )?(\w*Producer)$", text, re.MULTILINE) for text in snippets] == [
        ["Producer"],
        ["SyncProducer"],
        ["Producer"],
    ]
    for snippet in snippets:
        exec(compile(snippet.replace(DEFAULT_ADDRESS, broker.bootstrap), "README.md", "exec"), {})
    # Two groups each began at the beginning, with the first record of one of the partitions.
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(shell("ottla consume orders --exit").splitlines()) == 5


def test_the_work_queue_of_the_queues_page(
    shell: Callable[[str], str], broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = block_with("docs/queues.md", "ottla topic create jobs", "sh")
    shell("ottla topic delete --if-exists jobs")
    shell(begin)
    assert sorted(shell(block_with("docs/queues.md", "ottla consume jobs --share", "sh")).splitlines()) == [
        "resize a.png",
        "resize b.png",
    ]
    snippets = blocks("docs/queues.md", "python")
    assert len(snippets) == 2
    for snippet in snippets:
        shell(begin.splitlines()[1])
        exec(compile(snippet.replace(DEFAULT_ADDRESS, broker.bootstrap), "docs/queues.md", "exec"), {})
        assert set(capsys.readouterr().out.splitlines()) <= {"resize a.png", "resize b.png"}
        assert shell("ottla group describe workers")
    rest = shell("ottla consume jobs --share workers --exit").splitlines()
    assert set(rest) <= {"resize a.png", "resize b.png"}


def test_the_serve_command_of_the_readme_gives_the_line_it_shows(tmp_path: Path) -> None:
    setup, activate, serve = block_with("README.md", f"ottla serve --data {DATA}").splitlines()
    assert (setup.split()[:2], activate) == (["make", "setup"], ". .venv/bin/activate")
    command = serve.replace(DATA, str(tmp_path / "data")).split()
    assert command[:2] == ["ottla", "serve"]
    (shown,) = re.findall(r"^ottla \S+ is ready: .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert READY.search(shown)
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *command[1:], "--kafka", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
    finally:
        process.terminate()
        process.communicate(timeout=300)
    assert READY.search(ready)
    assert [re.sub(r"\d+", "N", word) for word in shown.split()[:4]] == [
        re.sub(r"\d+", "N", word) for word in ready.split()[:4]
    ]


def test_the_make_targets_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`?make ([a-z-]+)`?", (ROOT / "README.md").read_text()))
    assert {"run", "test"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_the_commands_of_the_cli_document(shell: Callable[[str], str], broker: BrokerProcess) -> None:
    shell("ottla topic create events copy orders --partitions 2")
    settings = {"transactional.id": "payments", "transaction.timeout.ms": 900_000}  # it outlasts all commands
    paying = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    paying.init_transactions(60)
    paying.begin_transaction()
    paying.produce("orders", "paid")
    paying.flush(60)
    line = block_with("docs/cli.md", '"key": "k"', "json").strip().replace('"partition": 3', '"partition": 1')
    shell(f"""echo '{line}' | ottla produce events --json""")
    shell("seq 20 | ottla produce events")
    for block in blocks("docs/cli.md", "sh"):
        shell(block)
    every = "ottla consume {} --exit -f '%p %o %T %k %h %v\\n' | sort"
    assert shell(every.format("copy")) == shell(every.format("events"))
    shown = shell(block_with("docs/cli.md", "%p@%o", "sh"))
    assert all(re.fullmatch(r"[01]@\d+ .*: .+", row) for row in shown.splitlines())


EXAMPLE = re.compile(r"`(ottla [^`]+)`")


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        *(
            f"docs/{name}.md"
            for name in (
                "cli",
                "cluster",
                "connecting",
                "runbook",
                "tour",
                "spark",
                "security",
                "queues",
                "nsq",
                "redis",
            )
        ),
    ],
)
def test_every_command_a_document_mentions_exists(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / document).read_text()
    for command in {
        " ".join(re.findall(r"^ottla(?: [a-z]+(?:-[a-z]+)*)+", text)[0:1]) for text in EXAMPLE.findall(text)
    } - {""}:
        words = command.split()
        with_commands = (
            "acl archive client-metrics config delay dlq feature group log perf pipeline quota token topic transaction"
            " user"
        )
        groups = dict.fromkeys(with_commands.split(), 2)
        known = {
            "serve": 1,
            "lookupd": 1,
            "completion": 1,
            "produce": 1,
            "consume": 1,
            "cluster": min(2, len(words) - 1),
            **groups,
        }
        assert words[1] in known, f"{document} names {command!r}"
        named = words[1 : 1 + known[words[1]]]
        assert run_command([*named, "--help"]) == 0, f"{document} names {command!r}"
        assert f"Usage: ottla {' '.join(named)}" in capsys.readouterr().out


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["completion", shell_name]) == 0
    script = capsys.readouterr().out
    assert f"_OTTLA_COMPLETE={shell_name}_complete" in script
    if shell_name == "bash":
        completed = (
            f"{script}\nCOMP_WORDS=(ottla topic cre) COMP_CWORD=2\n_ottla_completion ottla\necho ${{COMPREPLY[@]}}"
        )
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", completed], env={"PATH": path}, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.strip() == "create"
