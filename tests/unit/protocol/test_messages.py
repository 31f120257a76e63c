"""Every message in every version, against implementations that share no code with the kernel's."""

import pytest
from hypothesis import HealthCheck, given, settings

from ottla.protocol.message import CoordinatorKey, CoordinatorValue, Message
from tests.unit.protocol import kio_oracle, reference_codec
from tests.unit.protocol.message_strategy import all_messages, messages

NOT_IN_KIO = {
    **{
        message_class.__name__: "kio has no records of the coordinators"
        for message_class in all_messages()
        if issubclass(message_class, CoordinatorKey | CoordinatorValue)
    },
    "VotersRecord": "kio stops at the control records that clients meet",
    "ProducerSnapshot": "kio has no files",
    "DescribeDeliveriesRequest": "an API of Ottla alone",
    "DescribeDeliveriesResponse": "an API of Ottla alone",
    "DescribeHistoryRequest": "an API of Ottla alone",
    "DescribeHistoryResponse": "an API of Ottla alone",
    "RedisCommandsRequest": "an API of Ottla alone",
    "RedisCommandsResponse": "an API of Ottla alone",
    "ShareReadsRequest": "an API of Ottla alone",
    "ShareReadsResponse": "an API of Ottla alone",
}
"""The messages that only the plain writer beside these tests checks, and why."""

EVERY_VERSION = [
    pytest.param(message_class, version, id=f"{message_class.__name__}-{version}")
    for message_class in all_messages()
    for version in range(message_class.MIN_VERSION, message_class.MAX_VERSION + 1)
]
VERSIONS_IN_KIO = [each for each in EVERY_VERSION if each.values[0].__name__ not in NOT_IN_KIO]
VERSIONS_NOT_IN_KIO = [each for each in EVERY_VERSION if each.values[0].__name__ in NOT_IN_KIO]
FEW_EXAMPLES = settings(
    max_examples=6, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
@pytest.mark.parametrize(("message_class", "version"), VERSIONS_IN_KIO)
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(message_class: type[Message], version: int) -> None:
    kio_class = kio_oracle.class_of(message_class, version)

    @FEW_EXAMPLES
    @given(messages(message_class, version, kio_oracle.readable_values(message_class, version)))
    def check(message: Message) -> None:
        data = message.encode(version)
        kio_message = kio_oracle.decode(kio_class, data)
        assert kio_oracle.as_ours(message_class, version, kio_message) == message
        assert kio_oracle.encode(kio_message) == data
        assert message_class.decode(version, data) == message

    check()


@pytest.mark.parametrize(("message_class", "version"), VERSIONS_NOT_IN_KIO)
def test_a_plain_writer_writes_what_we_write_and_read(message_class: type[Message], version: int) -> None:
    @FEW_EXAMPLES
    @given(messages(message_class, version))
    def check(message: Message) -> None:
        data = message.encode(version)
        assert data == reference_codec.encode(message, version)
        assert message_class.decode(version, data) == message

    check()


@pytest.mark.parametrize(("message_class", "version"), VERSIONS_NOT_IN_KIO)
def test_the_table_of_what_kio_lacks_is_true(message_class: type[Message], version: int) -> None:
    with pytest.raises(ModuleNotFoundError):
        kio_oracle.class_of(message_class, version)


@pytest.mark.parametrize(("message_class", "version"), EVERY_VERSION)
def test_a_message_of_defaults_reads_back_in_every_version(message_class: type[Message], version: int) -> None:
    assert message_class.decode(version, message_class().encode(version)) == message_class()
