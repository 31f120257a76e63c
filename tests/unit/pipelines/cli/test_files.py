"""`ottla pipeline init`, `lint` and `graph`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.main import run
from ottla.pipelines import spec


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_file_that_init_writes_has_no_mistakes_and_a_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "init", "my-orders"]) == 0
    assert capsys.readouterr().out == "wrote my-orders.toml: try `ottla pipeline test my-orders.toml`\n"
    found, mistakes = spec.check("my-orders.toml")
    assert mistakes == []
    assert found is not None
    assert (found.name, len(found.tests)) == ("my-orders", 2)
    assert run(["pipeline", "lint", "my-orders.toml"]) == 0
    assert capsys.readouterr().out == ""


def test_init_leaves_a_file_that_is_there_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("orders.toml").write_text("mine")
    assert run(["pipeline", "init", "orders"]) == 1
    assert capsys.readouterr().err.startswith("ottla: orders.toml already exists")
    assert Path("orders.toml").read_text() == "mine"
    assert run(["pipeline", "init", "orders", "-o", "other.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pipeline": "orders", "file": "other.toml"}
    assert run(["pipeline", "init", "Orders!"]) == 2
    assert run(["pipeline", "init", "orders", "-o", "orders.yaml"]) == 2


def test_lint_says_each_mistake_with_its_place_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    run(["pipeline", "init", "orders"])
    text = Path("orders.toml").read_text().replace('checked"\nexpect', 'checked"\nexpects').replace("group =", "grup =")
    Path("orders.toml").write_text(text)
    capsys.readouterr()
    assert run(["pipeline", "lint", "orders.toml"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders.toml:10:1: unknown key grup in source orders (did you mean group?)"
    assert run(["pipeline", "lint", "--json", "orders.toml"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told[0] == {
        "file": "orders.toml",
        "line": 10,
        "column": 1,
        "message": "unknown key grup in source orders",
        "hint": "did you mean group?",
        "severity": "error",
    }
    assert len(told) == len(lines)
    assert run(["pipeline", "lint", "nothing.toml"]) == 4


def test_graph_writes_what_its_file_ends_in_and_refuses_a_wrong_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    run(["pipeline", "init", "orders"])
    capsys.readouterr()
    assert run(["pipeline", "graph", "orders.toml", "-o", "orders.svg"]) == 0
    assert Path("orders.svg").read_text().startswith("<svg ")
    assert run(["pipeline", "graph", "orders.toml"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR\n")
    assert run(["pipeline", "graph", "--json", "orders.toml"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    assert drawn["nodes"][0] == {"name": "orders", "kind": "stream", "what": "stream", "detail": "orders.orders"}
    Path("wrong.toml").write_text("name = 'a'\n")
    assert run(["pipeline", "graph", "wrong.toml"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "ottla: wrong.toml has 2 mistakes; nothing was done"
    assert told[0].startswith("wrong.toml:1:1: the pipeline has no")


def test_a_file_is_checked_and_drawn_without_spark() -> None:
    run(["pipeline", "init", "orders"])
    code = (
        "import sys; from ottla.cli.main import run\n"
        "assert run(['pipeline', 'lint', 'orders.toml']) == run(['pipeline', 'graph', 'orders.toml']) == 0\n"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas', 'deltalake') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
