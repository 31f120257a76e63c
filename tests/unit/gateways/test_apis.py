"""The table of APIs says what their files say."""

import subprocess
import sys
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from ottla.gateways import kafka
from ottla.gateways.kafka.api_table import Row
from ottla.gateways.kafka.apis import APIS


@pytest.mark.parametrize("key", APIS)
def test_a_row_is_what_its_file_says(key):
    row = APIS.rows[key]
    assert Row.of(APIS[key])._replace(module=row.module) == row
    assert row.module.startswith(f"api_{key:02}_")


@pytest.mark.parametrize("key", APIS)
def test_an_api_is_a_task_if_its_handler_is_a_coroutine_function(key):
    assert APIS[key].is_async is iscoroutinefunction(APIS[key].handle)


def test_every_file_has_a_row():
    files = {path.stem for path in Path(kafka.__file__).parent.glob("api_[0-9]*.py")}
    assert files == {row.module for row in APIS.rows.values()}


def test_an_api_that_is_not_served_is_not_found():
    assert APIS.find(-1) is None
    with pytest.raises(KeyError):
        APIS[-1]


@pytest.mark.slow
def test_a_server_is_imported_without_the_apis():
    code = (
        "import re, sys, ottla.server.serve\n"
        "read = [name for name in sys.modules if re.match(r'ottla.gateways.kafka.api_[0-9]', name)]\n"
        "assert not read, read\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
