"""Stores of every engine, and parties to them in processes of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.metadata.store.party import Party

NewParty = Callable[..., Party]


@pytest.fixture(params=["embedded"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is, of each engine."""
    return f"embedded:{tmp_path / 'store'}"


@pytest.fixture
def new_party(location: str) -> Iterator[NewParty]:
    """Starts parties to one store; all are killed at the end."""
    parties: list[Party] = []

    def new(**options: int) -> Party:
        parties.append(Party(location, **options))
        return parties[-1]

    yield new
    for party in parties:
        party.kill()
