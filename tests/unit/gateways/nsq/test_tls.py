"""The certificate that NSQ clients are shown, as its files change."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

import pytest

from ottla.gateways.nsq.limits import NsqLimits
from ottla.gateways.nsq.tls import NsqTls
from ottla.settings.definition import InvalidSettingError
from tests.certificates import Authority

AUTHORITY = Authority()


def shown(context: ssl.SSLContext | None) -> str:
    """The common name of the certificate that a client is shown."""
    assert context is not None
    asks = ssl.create_default_context(cadata=AUTHORITY.certificate_pem)
    (to_client, to_server) = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asks.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = client.getpeercert()
    assert certificate is not None
    return dict(field[0] for field in certificate["subject"])["commonName"]  # type: ignore[misc]


def later(path: Path) -> None:
    """The file is another one, also where the clock is coarse."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000_000))


def test_a_certificate_that_changes_is_shown_to_the_next_client_and_a_broken_one_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = AUTHORITY.identity("first").write_pem(tmp_path / "broker.pem")
    tls = NsqTls(NsqLimits(tls_cert=str(path)))
    tls.look_at_files()
    assert (shown(tls.context), caplog.text) == ("first", "")
    AUTHORITY.identity("second").write_pem(path)
    later(path)
    assert shown(tls.context) == "first"
    tls.look_at_files()
    assert shown(tls.context) == "second"
    assert "NSQ clients are shown a new certificate" in caplog.text
    path.write_text("no key")
    later(path)
    for _ in range(2):
        tls.look_at_files()
    assert shown(tls.context) == "second"
    assert caplog.text.count("NSQ clients are shown the certificate of before") == 1
    path.unlink()
    tls.look_at_files()
    assert (shown(tls.context), "there is no file" in caplog.text) == ("second", True)


@pytest.mark.parametrize(("password", "mode", "said"), [(None, 0o604, "chmod 600"), ("secret", 0o600, "not usable")])
def test_a_key_that_all_can_read_or_that_is_encrypted_is_refused(
    tmp_path: Path, password: str | None, mode: int, said: str
) -> None:
    path = AUTHORITY.identity("broker").write_pem(tmp_path / "broker.pem", password)
    path.chmod(mode)
    with pytest.raises(InvalidSettingError, match=said) as refused:
        NsqTls(NsqLimits(tls_cert=str(path)))
    assert "secret" not in str(refused.value)
