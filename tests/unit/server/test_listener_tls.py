"""Keys of listeners that change while the broker runs."""

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from ottla.runtime.clock import ManualClock, SystemClock
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.listener_tls import WARNED_EVERY_MS, WATCH_MS, BrokerTls
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from tests.certificates import DAY, Authority
from tests.unit.network.peers import until

AUTHORITY = Authority()
NOW_MS = SystemClock().now_ms()


def settings_of(path: Path | str, **more: str) -> BrokerSettings:
    return BrokerSettings(
        {
            "listeners": "PLAINTEXT://:9092,EXTERNAL://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:SSL",
            "listener.name.external.ssl.keystore.location": str(path),
            **{name.replace("__", ".").replace("_", "."): value for name, value in more.items()},
        }
    )


@asynccontextmanager
async def started(settings: BrokerSettings):
    timer, tasks = ManualTimer(ManualClock(NOW_MS)), Tasks("tls")
    tls = BrokerTls(
        settings, Environment(timer.clock, SeededRng(1), timer, tasks, asyncio.get_running_loop().call_soon)
    )
    try:
        await tls.start()
        yield tls, timer
    finally:
        await tasks.close()


def certificate_of(tls: BrokerTls) -> str:
    return tls.certificates["EXTERNAL"].subject


async def test_a_file_that_changes_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = AUTHORITY.identity("broker").write_pem(tmp_path / "broker.pem")
    async with started(settings_of(path)) as (tls, timer):
        before, acceptor = tls.acceptor("EXTERNAL"), tls.acceptor("EXTERNAL")
        assert before is acceptor
        assert before is not None
        first, ends_ms = before.context(), tls.certificates["EXTERNAL"].not_after_ms
        await tls.look_at_files()
        assert before.context() is first
        # As another file: what is written over within a tick of the file system's clock looks as before.
        AUTHORITY.identity("broker", lasts=900 * DAY).write_pem(tmp_path / "new.pem").replace(path)
        timer.advance(WATCH_MS)
        await until(lambda: before.context() is not first)
        assert tls.certificates["EXTERNAL"].not_after_ms > ends_ms
        assert "listener EXTERNAL has new TLS settings, its certificate ends on" in caplog.text


async def test_a_file_that_cannot_be_used_leaves_what_there_was_and_is_said_once(tmp_path, caplog):
    path = AUTHORITY.identity("broker").write_pem(tmp_path / "broker.pem")
    async with started(settings_of(path)) as (tls, _):
        acceptor = tls.acceptor("EXTERNAL")
        assert acceptor is not None
        first = acceptor.context()
        path.write_text("half a fil")
        await tls.look_at_files()
        await tls.look_at_files()
        assert acceptor.context() is first
        assert len(caplog.records) == 1
        assert f"what it had before is used on: listener.name.external.ssl.keystore.location={path}" in caplog.text


@pytest.mark.parametrize(
    ("subject", "hosts", "allows", "said"),
    [
        ("other", ("localhost", "127.0.0.1"), "ssl.allow.dn.changes", "has the subject CN=other, not CN=broker"),
        ("broker", ("localhost",), "ssl.allow.san.changes", "does not name 127.0.0.1"),
    ],
)
async def test_a_certificate_of_somebody_else_is_used_only_where_that_is_allowed(
    tmp_path, caplog, subject, hosts, allows, said
):
    path = AUTHORITY.identity("broker").write_pem(tmp_path / "broker.pem")
    other = str(AUTHORITY.identity(subject, hosts).write_pem(tmp_path / "other.pem"))
    async with started(settings_of(path)) as (tls, _):
        wanted = settings_of(other)
        with pytest.raises(InvalidSettingError, match=said):
            await tls.check(wanted)
        before = certificate_of(tls), tls.certificates["EXTERNAL"].names
        await tls.configure(wanted)
        assert (certificate_of(tls), tls.certificates["EXTERNAL"].names) == before
        assert said in caplog.text
        allowed = settings_of(other, **{allows.replace(".", "_"): "true"})
        await tls.check(allowed)
        await tls.configure(allowed)
        assert (certificate_of(tls), len(tls.certificates["EXTERNAL"].names)) == (f"CN={subject}", len(hosts))


async def test_a_listener_that_comes_without_a_key_lets_nobody_in(tmp_path, caplog):
    async with started(BrokerSettings()) as (tls, _):
        assert tls.acceptor("EXTERNAL") is None
        await tls.configure(settings_of(tmp_path / "none.pem"))
        acceptor = tls.acceptor("EXTERNAL")
        assert acceptor is not None
        with pytest.raises(OSError, match="cannot be used"):
            acceptor.context()
        assert "nobody is let in" in caplog.text


async def test_a_broker_does_not_start_without_a_key_it_can_use(tmp_path):
    with pytest.raises(InvalidSettingError) as refused:
        async with started(settings_of(tmp_path / "none.pem")):
            pass
    [complaint] = refused.value.complaints
    assert complaint.setting == "listener.name.external.ssl.keystore.location"
    assert complaint.message.startswith(f"{complaint.setting}={tmp_path}/none.pem: No such file")


@pytest.mark.parametrize(("lasts", "said"), [(29.5 * DAY, "in 29 days: replace it"), (-DAY, "has expired on")])
async def test_a_certificate_that_ends_soon_is_warned_of_once_a_day(tmp_path, caplog, lasts: timedelta, said: str):
    caplog.set_level(logging.WARNING)
    path = AUTHORITY.identity("broker", lasts=lasts).write_pem(tmp_path / "broker.pem")
    async with started(settings_of(path)) as (_, timer):
        timer.advance(2 * WATCH_MS)
        assert [said in each.getMessage() for each in caplog.records] == [True]
        timer.advance(WARNED_EVERY_MS)
        assert len(caplog.records) == 2


async def test_a_certificate_that_lasts_is_not_spoken_of(tmp_path, caplog):
    path = AUTHORITY.identity("broker", lasts=31 * DAY).write_pem(tmp_path / "broker.pem")
    async with started(settings_of(path)):
        assert not caplog.records
