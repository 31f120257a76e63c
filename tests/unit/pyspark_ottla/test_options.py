"""Options are found in whatever case, and what is wrong with one is said with its name."""

import pytest

from pyspark_ottla.options import OptionError, Options
from pyspark_ottla.read_options import READ_OPTIONS
from pyspark_ottla.write_options import WRITE_OPTIONS

CONNECTOR_NAMES = """subscribe subscribepattern assign startingoffsets endingoffsets startingoffsetsbytimestamp
    endingoffsetsbytimestamp startingtimestamp endingtimestamp failondataloss minpartitions maxrecordsperpartition
    maxoffsetspertrigger minoffsetspertrigger maxtriggerdelay fetchoffset.numretries fetchoffset.retryintervalms
    kafkaconsumer.polltimeoutms startingoffsetsbytimestampstrategy groupidprefix includeheaders topic"""
"""The names in the class file of spark-sql-kafka-0-10 4.2.0."""
KNOWN = ("startingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss", "assign")


def options(**given: str) -> Options:
    return Options(given, KNOWN)


def test_a_name_is_found_in_whatever_case_it_was_written():
    assert options(STARTINGOFFSETS="earliest").text("startingOffsets") == "earliest"


def test_a_typing_error_is_refused_with_the_name_that_was_meant():
    with pytest.raises(OptionError, match="unknown option startingofset: did you mean startingOffsets"):
        options(startingofset="earliest")


def test_an_unknown_option_is_refused_with_the_names_that_are_known():
    with pytest.raises(OptionError, match=r"unknown option zzz: known are .*failOnDataLoss"):
        options(zzz="1")


@pytest.mark.parametrize("name", ["groupIdPrefix", "kafka.max.poll.records", "KAFKA.SSL.truststore.location", "topic"])
def test_an_option_of_sparks_kafka_source_or_a_kafka_client_is_left_alone_with_a_reason(name):
    assert options(**{name: "x"}).ignored.keys() == {name}


def test_what_is_left_alone_is_told_once(caplog, monkeypatch):
    monkeypatch.setattr("pyspark_ottla.options._warned", set())
    for _ in range(2):
        options(**{"kafka.auto.offset.reset": "latest"}).warn_of_ignored()
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("option kafka.auto.offset.reset is ignored: Spark's checkpoint says")


def test_it_is_named_as_it_is_written_though_spark_hands_it_over_in_lower_case(caplog, monkeypatch):
    monkeypatch.setattr("pyspark_ottla.options._warned", set())
    options(**{"kafkaconsumer.polltimeoutms": "1", "kafka.ssl.key.password": "x"}).warn_of_ignored()
    told = [record.getMessage().split()[1] for record in caplog.records]
    assert told == ["kafkaConsumer.pollTimeoutMs", "kafka.ssl.key.password"]


def test_a_typing_error_in_a_name_that_would_be_left_alone_is_refused():
    with pytest.raises(OptionError, match=r"unknown option kafka.max.pol.records: did you mean kafka.max.poll.records"):
        options(**{"kafka.max.pol.records": "5"})


def test_every_option_of_sparks_own_connector_is_known_or_left_alone():
    names = CONNECTOR_NAMES.split()
    for known in (READ_OPTIONS, WRITE_OPTIONS):
        left = Options(dict.fromkeys(names, "1"), known).ignored
        assert left.keys() == set(names) - {name.lower() for name in known}


def test_what_spark_itself_adds_is_let_be():
    assert options(checkpointLocation="/tmp/x", queryName="q").text("assign") is None


@pytest.mark.parametrize("value", ["many", "1.5", "0", "-1"])
def test_a_number_that_is_none_or_too_small_is_refused(value):
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger"):
        options(maxOffsetsPerTrigger=value).integer("maxOffsetsPerTrigger", 1)


def test_true_and_false_are_read_in_whatever_case_and_nothing_else_is():
    assert options(failOnDataLoss="TRUE").boolean("failOnDataLoss", default=False)
    assert not options(failOnDataLoss="false").boolean("failOnDataLoss", default=True)
    with pytest.raises(OptionError, match="failOnDataLoss must be true or false, not 'yes'"):
        options(failOnDataLoss="yes").boolean("failOnDataLoss", default=True)


@pytest.mark.parametrize("value", ["[1]", "{", "1"])
def test_json_that_is_no_object_is_refused(value):
    with pytest.raises(OptionError, match="option assign"):
        options(assign=value).json_object("assign")


def test_an_empty_value_counts_as_not_given():
    assert options(maxOffsetsPerTrigger=" ").integer("maxOffsetsPerTrigger", 7) == 7
