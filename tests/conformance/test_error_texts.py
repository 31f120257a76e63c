"""The texts of refusals have the words of Kafka's own: tools match them, and people search for them.

`error_texts` asks. Apache Kafka 4.3.1, asked the same, says all of these words; of Produce its clients say them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.beside_kafka.wire import Wire
from ottla.model.error_code import ErrorCode
from ottla.model.error_texts import ERROR_TEXTS
from tests.broker_process import BrokerProcess
from tests.conformance.error_texts import answers

NOT_HOSTED = "This server does not host this topic-partition"
BAD_NAME = "Topic name is invalid"
ASSIGNMENT = "The manual partition assignment"

WORDS = {
    "create what is there": "Topic 'texts' already exists",
    "create twice": "Duplicate topic name",
    "create the name ''": f"{BAD_NAME}: the empty string is not allowed",
    "create the name '.'": f"{BAD_NAME}: '.' is not allowed",
    "create the name 'a b'": "characters other than ASCII alphanumerics, '.', '_' and '-'",
    "create the name 'xxxxxxxxx'": "than the max allowed length 249",
    "create colliding": "Topic 'a_b' collides with existing topic",
    "create the metadata topic": "Creation of internal topic __cluster_metadata is prohibited",
    "create 0 partitions, factor 1": "Number of partitions",
    "create 1 partitions, factor 0": "must be larger than 0, or -1 to use the default value",
    "create 1 partitions, factor 2": "Unable to replicate the partition 2 time(s)",
    "create assigned to none": f"{ASSIGNMENT} includes an empty replica list",
    "create assigned to a stranger": "includes broker 7, but no such broker is registered",
    "create assigned twice to one": "more than once",
    "create assigned with a gap": "partitions should be a consecutive 0-based integer sequence",
    "create assigned, with a count": "manual partition assignment",
    "create with no.such=1": "Unknown topic config name: no.such",
    "create with retention.ms=x": "Invalid value x for configuration retention.ms: Not a number of type LONG",
    "create with retention.ms=None": "Null value not supported",
    "create with retention.ms=-2": "must be at least -1",
    "create with cleanup.policy=x": "must be one of: compact, delete",
    "create with preallocate=x": "Expected value to be either true or false",
    "create with follower.replication.throttled.replicas=x": "must be the literal '*' or a list of replicas",
    "grow to fewer": "The topic texts currently has 2 partition(s)",
    "grow to as many": "Topic already has 2 partition(s)",
    "grow to 0": "would not be an increase",
    "grow twice": "Duplicate topic name",
    "grow with too many assignments": "additional partition(s)",
    "delete no topic": NOT_HOSTED,
    "delete no id": "This server does not host this topic ID",
    "delete neither name nor id": "Neither topic name nor id were specified",
    "delete both name and id": "You may not specify both topic name and topic id",
    "move no partition": "Unable to find partition",
    "elect 0 nosuch-0": "No such topic as nosuch",
    "elect 0 texts-9": "No such partition as texts-9",
    "elect 0 texts-0": "Leader election not needed",
    "elect 7 texts-0": "Unknown election type 7",
    "producers of nosuch-0": NOT_HOSTED,
    "describe 4 7": "Unexpected broker id, expected 1 or empty string",
    "describe 8 7": "Unexpected broker id, expected 1 but received",
    "describe 32 ''": "name must not be empty",
    "alter 2 nosuch retention.ms:0:1": "'nosuch' does not exist",
    "alter 2 texts retention.ms:2:1": "Can't APPEND to key retention.ms because its type is not LIST",
    "alter 2 texts retention.ms:0:1 retention.ms:0:2": "duplicate config keys",
    "alter 2 texts min.compaction.lag.ms:0:9 max.compaction.lag.ms:0:2": "(9) > max.compaction.lag.ms (2)",
    "alter 4 x log.retention.ms:0:1": "must be an integer, but it is: x",
    "alter 4 1 num.partitions:0:2": "Cannot update",
    "alter 4  listeners:0:PLAINTEXT://:1": "at default cluster level, broker id must be specified",
    "alter 8 1 no.such.logger:0:INFO": "Logger no.such.logger does not exist",
    "alter 99 1 x:0:1": "Unknown resource type 99",
    "alter 32 g no.such:0:1": "Unknown group config name: no.such",
    "alter 32 g consumer.session.timeout.ms:0:1": "greater than or equal to group.consumer.min.session.timeout.ms",
    "alter one topic twice": "Each resource must appear at most once",
    "quota unknown key": "Invalid configuration key no_such",
    "quota negative": "producer_byte_rate must be greater than 0",
    "quota fraction": "cannot be a fractional value",
    "quota of nobody": "Invalid empty client quota entity",
    "quota of a stranger": "Unhandled client quota entity type: planet",
    "quota ip with user": "Invalid quota entity combination",
    "quota bad ip": "1.2.3.4.5 is not a valid IP",
    "quotas of 'planet'": "Unsupported entity type planet",
    "quotas of ''": "Invalid empty entity type",
    "feature metadata.version 99 1": "only supports versions",
    "feature group.version 0 1": "downgrade",
    "unregister a stranger": "Broker ID 77 is not currently registered",
    "heartbeat without a group": "GroupId can't be empty",
    "produce to no topic": NOT_HOSTED,
    "produce with acks 7": "invalid value for required acks",
    "produce too large": "larger than the max message size",
    "produce a bad crc": "CRC",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a broker that is alone says to each request."""
    folder: Path = tmp_path_factory.mktemp("texts")
    with BrokerProcess(folder / "data") as process:
        port = int(process.bootstrap.rpartition(":")[2])
        wire = Wire.connect(port)
        found = {what: " ".join(str(text) for _, text in answer) for what, answer in answers(wire)}
        wire.close()
    return found


@pytest.mark.parametrize("what", WORDS)
def test_the_text_of_a_refusal_has_kafkas_words(said, what):
    assert WORDS[what] in said[what]


def test_every_refusal_of_an_admin_request_says_why(said):
    assert [what for what, text in said.items() if text in ("None", "(has no text)")] == []


CODE_WORDS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "does not host this topic-partition",
    "TOPIC_AUTHORIZATION_FAILED": "Topic authorization failed",
    "GROUP_AUTHORIZATION_FAILED": "Group authorization failed",
    "CLUSTER_AUTHORIZATION_FAILED": "Cluster authorization failed",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Transactional Id authorization failed",
    "TOPIC_ALREADY_EXISTS": "already exists",
    "OFFSET_OUT_OF_RANGE": "within the range of offsets",
    "MESSAGE_TOO_LARGE": "larger than the max message size",
    "NOT_ENOUGH_REPLICAS": "fewer in-sync replicas than required",
    "NOT_LEADER_OR_FOLLOWER": "is not the current leader",
    "LEADER_NOT_AVAILABLE": "There is no leader for this topic-partition",
    "REQUEST_TIMED_OUT": "request timed out",
    "COORDINATOR_NOT_AVAILABLE": "coordinator is not available",
    "NOT_COORDINATOR": "This is not the correct coordinator",
    "UNKNOWN_MEMBER_ID": "not aware of this member",
    "REBALANCE_IN_PROGRESS": "group is rebalancing, so a rejoin is needed",
    "NON_EMPTY_GROUP": "group is not empty",
    "GROUP_ID_NOT_FOUND": "group id does not exist",
    "PRODUCER_FENCED": "There is a newer producer with the same transactionalId",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "out of order sequence number",
    "INVALID_REPLICATION_FACTOR": "larger than the number of available brokers",
    "UNSUPPORTED_VERSION": "version of API is not supported",
    "KAFKA_STORAGE_ERROR": "Disk error when trying to access",
    "CORRUPT_MESSAGE": "CRC checksum",
}


def test_a_code_without_a_text_is_told_with_kafkas_words():
    assert set(ERROR_TEXTS) == set(ErrorCode)
    for name, words in CODE_WORDS.items():
        assert words.lower() in ERROR_TEXTS[ErrorCode[name]].lower(), name
