"""Secrets of a test that are unlike anything else, and a search for them in whatever is shown."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote


@dataclass
class Markers:
    """What is secret, by what it is."""

    values: dict[str, bytes] = field(default_factory=dict)

    def new(self, what: str) -> str:
        """A secret that is made up."""
        return self.add(what, f"Zq{secrets.token_hex(9)}~")

    def add(self, what: str, value: str) -> str:
        """One that there is."""
        self.values[what] = value.encode()
        return value

    def found_in(self, where: str, shown: bytes) -> list[str]:
        """Which are in what is shown, in any of the forms in which programs write bytes."""
        return [
            f"{where}: {what} ({form})"
            for what, value in self.values.items()
            for form, pattern in _forms(value)
            if pattern in shown
        ]


def _forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    yield "as it is", value
    yield "hex", value.hex().encode()
    yield "HEX", value.hex().upper().encode()
    yield "repr", repr(value)[2:-1].encode()
    yield "url", quote(value, safe="").encode()
    for before in range(3):  # base64 looks otherwise by where in three bytes the secret begins
        for form, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            encoded = encode(b"\0" * before + value)
            first = (before * 8 + 5) // 6
            yield form, encoded[first : (before + len(value)) * 8 // 6]
