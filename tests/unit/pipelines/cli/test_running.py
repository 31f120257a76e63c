"""`ottla pipeline` where it needs neither Spark nor a broker: mistakes on the command line and in files."""

import signal

import pytest

from ottla.cli import pipeline_run
from ottla.cli.exit_codes import ExitCode
from ottla.cli.main import run
from ottla.cli.pipeline_run import bootstrap_of, settings_of
from ottla.pipelines.spec.model import PipelineSpec

FILE = """
name = "p"
checkpoints = "c"
[sources.events]
topics = ["events"]
format = "text"
[[sinks]]
name = "out"
topic = "t"
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "p.toml").write_text(FILE)
    return str(tmp_path / "p.toml")


def failed(capsys, *arguments):
    code = run(["pipeline", *arguments])
    return code, capsys.readouterr().err.strip().removeprefix("ottla: ")


def test_a_file_that_is_not_there(capsys, tmp_path):
    code, said = failed(capsys, "run", str(tmp_path / "none.toml"))
    assert code != ExitCode.OK
    assert "none.toml" in said


def test_a_mistake_in_the_file_is_told_with_its_place(capsys, file, tmp_path):
    (tmp_path / "p.toml").write_text(FILE.replace('format = "text"', 'format = "xml"'))
    code, said = failed(capsys, "run", file)
    assert code == ExitCode.FAILED
    assert "p.toml:6:" in said


def test_one_pipeline_does_not_run_twice_in_a_driver(capsys, file):
    assert failed(capsys, "run", file, file) == (
        ExitCode.USAGE,
        "two pipelines are named p: each needs its own name",
    )


def test_a_file_without_tests_says_so(capsys, file):
    code, said = failed(capsys, "test", file)
    assert code == ExitCode.NOT_FOUND
    assert said.endswith("has no [[tests]]")


def test_a_step_that_is_not_there_is_answered_with_those_that_are(capsys, file):
    code, said = failed(capsys, "inspect", file, "hourly")
    assert code == ExitCode.NOT_FOUND
    assert said.endswith("has no source or step 'hourly'; it has events")


@pytest.mark.parametrize("arguments", [[], ["--to", "latest", "events:0=1"]], ids=["nowhere", "two places"])
def test_reset_needs_one_place_to_go_to(capsys, file, arguments):
    code, said = failed(capsys, "reset", file, *arguments)
    assert code == ExitCode.USAGE
    assert said.startswith("give --to (earliest, latest or a time)")


def test_reset_of_a_sink_that_is_not_there(capsys, file):
    code, said = failed(capsys, "reset", file, "--to", "latest", "--sink", "x")
    assert code == ExitCode.NOT_FOUND
    assert said.endswith("has no sink 'x'")


def test_reset_before_the_first_run_says_what_decides(capsys, file):
    code, said = failed(capsys, "reset", file, "--to", "latest", "-b", "127.0.0.1:1")
    assert code == ExitCode.FAILED
    assert said == "sink out: it has not run yet, so there is nothing to reset: set `start` of its sources"


def test_the_brokers_are_those_of_the_command_line_the_file_the_environment(monkeypatch):
    spec = PipelineSpec(name="p", sources={}, sinks=(), bootstrap="file:1")
    bare = PipelineSpec(name="p", sources={}, sinks=())
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "environment:1")
    assert [bootstrap_of(spec, "given:1"), bootstrap_of(spec, None), bootstrap_of(bare, None)] == [
        "given:1",
        "file:1",
        "environment:1",
    ]
    monkeypatch.delenv("OTTLA_BOOTSTRAP")
    assert bootstrap_of(bare, None) == "127.0.0.1:9092"


def test_settings_of_spark_are_pairs(capsys, file):
    assert settings_of(("spark.a=b=c",)) == {"spark.a": "b=c"}
    code, said = failed(capsys, "run", file, "--conf", "a=b")
    assert code == ExitCode.USAGE
    assert "not KEY=VALUE" in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_a_command_that_runs_no_query_leaves_nothing_behind(monkeypatch, capsys, file, number, code):
    scratch = []

    class Interrupted:
        spark = None

        def __init__(self, options):
            scratch.append(options.scratch)

        def __enter__(self):
            assert scratch[0].is_dir()
            signal.raise_signal(number)
            return self

        def __exit__(self, *_):
            """Nothing."""

    monkeypatch.setattr(pipeline_run, "Session", Interrupted)
    assert failed(capsys, "inspect", file, "events") == (code, "ended by SIGTERM" if code == 143 else "")
    assert not scratch[0].exists()
