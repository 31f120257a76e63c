"""The ban on ambient effects sees through aliases and does not see ghosts."""

from pathlib import Path

import pytest

from tools.check_ambient import check

PATH = Path("src/ottla/broker/example.py")


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic_ns()",
        "from time import perf_counter as now\nnow()",
        "import time\ndef f(clock=time.monotonic): ...",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import date as d\nd.today()",
        "import random",
        "from random import choice",
        "import secrets",
        "import uuid\nuuid.uuid4()",
        "import os\nos.urandom(8)",
        "import os\nos.fsync(3)",
        "from os import fdatasync",
        "import asyncio\nasyncio.sleep(1)",
        "import asyncio\nasyncio.create_task(x)",
        "from asyncio import ensure_future",
        "import asyncio\nasyncio.get_running_loop().create_task(x)",
        "loop.call_later(1, f)",
        "self._loop.run_in_executor(None, f)",
        "def f():\n    import time\n    time.sleep(1)",
    ],
)
def test_an_ambient_use_is_found(source: str):
    assert list(check(source, PATH))


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.strftime('%Y', moment)",
        "import uuid\nuuid.UUID(int=5)",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)",
        "clock.now_ms()\nself.time.time()",
        "import os\nos.pread(3, 1, 0)",
        "import asyncio\nasyncio.Event()\nasyncio.wait_for(x, 1)",
        "Timer(clock, loop.call_later)",
        "tasks.spawn(work(), 'work')",
        "import asyncio\nasync def f():\n    async with asyncio.TaskGroup() as group:\n        group.create_task(g())",
        "loop.run_in_executor(own_pool, f)",
        "random = Random(5)\nrandom.random()",
        "'time.sleep(1)'  # time.time()",
    ],
)
def test_what_is_not_ambient_is_let_be(source: str):
    assert list(check(source, PATH)) == []


def test_the_message_says_where_what_and_what_instead():
    assert list(check("import os\n\nos.fsync(3)\n", PATH)) == [
        "src/ottla/broker/example.py:3: os.fsync is ambient; take an ottla.runtime.disk.Disk"
    ]
