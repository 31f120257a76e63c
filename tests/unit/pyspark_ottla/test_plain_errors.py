"""The sentence for people comes first where Spark shows an error, and tracebacks stay for what nobody expected."""

import os

import pytest

from ottla.client.errors import BrokerUnreachableError
from pyspark_ottla.options import OptionError
from pyspark_ottla.plain_errors import plain_errors


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    for name in ("PORT", "SECRET", "SOCK_DIR", "SOCK_PATH"):
        monkeypatch.delenv(f"PYTHON_WORKER_FACTORY_{name}", raising=False)


def hides_after(error: Exception) -> bool:
    with pytest.raises(type(error)), plain_errors():
        raise error
    return os.environ["SPARK_HIDE_TRACEBACK"] == "1"


@pytest.mark.parametrize("variable", ["PORT", "SOCK_DIR", "SOCK_PATH"])
@pytest.mark.parametrize("error", [OptionError("write x"), BrokerUnreachableError("no broker")])
def test_an_error_that_is_a_sentence_for_people_goes_without_its_traceback(error, variable, monkeypatch):
    monkeypatch.setenv(f"PYTHON_WORKER_FACTORY_{variable}", "1")
    assert hides_after(error)


def test_an_error_that_nobody_expected_keeps_its_traceback(monkeypatch):
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    assert not hides_after(KeyError("x"))


def test_a_process_that_is_not_sparks_is_left_alone():
    assert not hides_after(OptionError("write x"))
