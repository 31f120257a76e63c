"""What callers may rely on in the kernel's failures."""

import pickle

import pytest

from ottla.model.errors import InvalidInputError
from ottla.native import errors, validate_batches


def test_every_failure_closes_the_connection_that_sent_the_bytes() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(value, InvalidInputError) for value in classes)


def test_a_failure_keeps_its_place_when_it_crosses_processes() -> None:
    with pytest.raises(errors.KernelError) as caught:
        validate_batches(bytes(30))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.position, copy.batch_index) == (str(caught.value), 0, 0)
