"""nsqjs' own tests, as they are in its package, with a broker where they start nsqd."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.clients.peer_programs import nsqjs_package
from tests.conformance.needed_peers import needed_peer

WITHIN_S = 600
TEST_MS = 60_000
NSQD = """#!{python}
import os, pathlib, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
key = pathlib.Path({folder!r}) / f"{{os.getpid()}}.key"
key.touch(0o600)  # the package's is readable to all, which a broker refuses
key.write_bytes(pathlib.Path(flags["-tls-key"]).read_bytes())
settings = {{"nsq.tls.cert": flags["-tls-cert"], "nsq.tls.key": str(key)}}
command = [sys.executable, "-m", "ottla.cli", "serve", "--data", flags["-data-path"], "--kafka", "127.0.0.1:0"]
command += ["--nsq", flags["-tcp-address"], "--nsq-http", flags["-http-address"]]
for name, value in settings.items():
    command += ["--set", name + "=" + value]
os.execv(sys.executable, command)
"""


@pytest.mark.peer
@pytest.mark.long
def test_nsqjs_passes_its_own_tests(tmp_path: Path) -> None:
    with needed_peer():
        package = nsqjs_package()
    nsqd = tmp_path / "nsqd"
    nsqd.write_text(NSQD.format(python=sys.executable, folder=str(tmp_path)))
    nsqd.chmod(0o755)
    mocha = package.parent / "mocha" / "bin" / "mocha"
    done = subprocess.run(
        ["node", str(mocha), "-R", "spec", "--exit", "--timeout", str(TEST_MS)],
        cwd=package,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    counted = re.search(r"(\d+) passing", done.stdout)
    assert counted is not None
    assert int(counted[1]) >= 150
    assert "compression (snappy) and tls (true)" in done.stdout
