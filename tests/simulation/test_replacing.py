"""What is replaced for a while is as it was afterwards."""

import pytest

from ottla.model import topic_name
from ottla.simulation.replacing import replaced


class Base:
    inherited = "base"


class Owner(Base):
    own = "own"

    @staticmethod
    def double(number: int) -> int:
        return 2 * number


def test_an_attribute_is_replaced_within_the_block_also_when_the_block_raises() -> None:
    def fail() -> None:
        with replaced(Owner, "own", "other"):
            raise ValueError(Owner.own)

    with pytest.raises(ValueError, match="other"):
        fail()
    assert Owner.own == "own"


def test_a_static_method_is_one_again() -> None:
    with replaced(Owner, "double", staticmethod(lambda number: 3 * number)):
        assert Owner().double(2) == 6
    assert Owner().double(2) == 4


def test_what_was_inherited_is_inherited_again() -> None:
    with replaced(Owner, "inherited", "here"):
        assert (Owner.inherited, Base.inherited) == ("here", "base")
    assert "inherited" not in vars(Owner)


def test_a_module_is_given_by_its_name() -> None:
    with replaced("ottla.model.topic_name", "CONSUMER_OFFSETS_TOPIC", "another"):
        assert topic_name.CONSUMER_OFFSETS_TOPIC == "another"
    assert topic_name.CONSUMER_OFFSETS_TOPIC == "__consumer_offsets"


def test_what_is_not_there_is_not_replaced() -> None:
    with pytest.raises(AttributeError), replaced(Owner, "nothing", 1):
        pass
