import base64
import uuid

import pytest

from ottla.runtime.rng import Rng, SeededRng, SystemRng


def draw(rng: Rng) -> list[object]:
    return [rng.uuid(), rng.random(), rng.randbelow(10**9), rng.uniform(1, 2), rng.token_bytes(8)]


def test_one_seed_gives_one_sequence_and_another_seed_another():
    assert draw(SeededRng(7)) == draw(SeededRng(7))
    assert draw(SeededRng(7)) != draw(SeededRng(8))


@pytest.mark.parametrize("rng", [SystemRng(), SeededRng(1)], ids=["system", "seeded"])
def test_values_lie_where_they_should(rng: Rng):
    assert 0 <= rng.random() < 1
    assert {rng.randbelow(3) for _ in range(200)} == {0, 1, 2}
    assert 5 <= rng.uniform(5, 6) <= 6
    assert len(rng.token_bytes(12)) == 12


@pytest.mark.parametrize("rng", [SystemRng(), SeededRng(1)], ids=["system", "seeded"])
def test_a_uuid_is_version_4_and_its_base64_can_be_an_argument_of_a_command(rng: Rng):
    for _ in range(500):
        value = rng.uuid()
        assert (value.version, value.variant) == (4, uuid.RFC_4122)
        assert not base64.urlsafe_b64encode(value.bytes).startswith(b"-")
