import json

import pytest

from ottla.metadata.registration import BrokerRegistration, decode_registration
from ottla.model.errors import InvalidInputError


def test_a_registration_comes_back_as_it_was_written():
    written = BrokerRegistration(
        host="b1",
        port=9092,
        rack="r1",
        endpoints={"PLAINTEXT": ("b1", 9092), "INTERNAL": ("10.0.0.1", 9093)},
        incarnation="i",
        directories=("d1", "d2"),
        previous_epoch=17,
        flush=False,
    )
    assert decode_registration(written.encode()) == written
    assert json.loads(written.encode())["endpoints"] == {"PLAINTEXT": ["b1", 9092], "INTERNAL": ["10.0.0.1", 9093]}


def test_registrations_of_other_releases_are_read():
    assert decode_registration(b'{"host":null,"port":1,"rack":null}') == BrokerRegistration(host=None, port=1)
    assert decode_registration(b'{"host":"h","port":1,"new":[1],"version":2}').version == 2


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"host":1,"port":2}', b'{"host":"a","port":1,"endpoints":{"a":[1]}}']
)
def test_what_is_no_registration_is_refused(data):
    with pytest.raises(InvalidInputError, match="registration"):
        decode_registration(data)


def test_the_first_directory_tells_brokers_with_one_id_apart():
    assert BrokerRegistration(host="h", port=1, directories=("a", "b"), incarnation="i").directory_token == b"a"
