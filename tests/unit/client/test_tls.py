"""What clients of TLS read of files, and when."""

from pathlib import Path

import pytest

from ottla.client.errors import InvalidOptionError
from ottla.client.tls import ClientTls
from tests.certificates import Authority


def trusted(tls: ClientTls) -> list[str]:
    """The names of the authorities."""
    found = [str(each["subject"]) for each in tls.context().get_ca_certs()]
    return [name for name in ("one", "another") if any(f"'{name}'" in each for each in found)]


def test_a_file_is_read_again_when_it_has_changed_and_only_then(tmp_path: Path) -> None:
    path = Authority("one").write(tmp_path / "ca.pem")
    tls = ClientTls(ssl_truststore_location=str(path))
    assert trusted(tls) == ["one"]
    assert tls.context() is ClientTls(ssl_truststore_location=str(path)).context()
    Authority("another").write(tmp_path / "new.pem").replace(path)
    assert trusted(tls) == ["another"]


def test_what_was_read_is_used_on_while_the_file_cannot_be(tmp_path: Path) -> None:
    path = Authority("one").write(tmp_path / "ca.pem")
    tls = ClientTls(ssl_truststore_location=str(path))
    assert trusted(tls) == ["one"]
    path.write_text("half of i")
    assert trusted(tls) == ["one"]
    path.unlink()
    assert trusted(tls) == ["one"]
    with pytest.raises((InvalidOptionError, OSError)):
        ClientTls(ssl_truststore_location=f"{path}.none").context()
