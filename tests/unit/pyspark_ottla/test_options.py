"""Options are found in whatever case, and what is wrong with one is said with its name."""

import pytest

from pyspark_ottla.options import OptionError, Options

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


def test_an_option_of_another_source_is_refused_with_what_to_do():
    with pytest.raises(OptionError, match=r"groupidprefix has no meaning here \(reading does not join"):
        options(groupidprefix="x")


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
