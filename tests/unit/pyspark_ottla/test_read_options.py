"""The options of a read, and how they limit each other."""

import pytest

from ottla.client.consuming.offsets import IsolationLevel
from pyspark_ottla.options import OptionError
from pyspark_ottla.read_options import BATCH_BYTES_LIMIT, ReadOptions, available_cores

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}


def options(*, streaming: bool = True, **given: str) -> ReadOptions:
    return ReadOptions.of(
        {**BASE, **{name.replace("__", "."): value for name, value in given.items()}}, streaming=streaming
    )


def test_by_default_there_are_as_many_tasks_as_cores():
    assert (options().tasks_min, options().tasks_max) == (1, available_cores())
    assert options(minPartitions="500").tasks_max == 500
    assert options(tasks="3").tasks_max == 3


def test_the_smaller_of_kafkas_two_fetch_limits_counts():
    assert options(kafka__fetch__max__bytes="5000").fetch.max_bytes == 5000
    assert options(kafka__fetch__max__bytes="5000", kafka__max__partition__fetch__bytes="400").fetch.max_bytes == 400


def test_arrow_batches_cannot_be_made_too_large_for_the_jvm():
    assert options(maxBatchBytes=str(BATCH_BYTES_LIMIT)).fetch.batch_bytes == BATCH_BYTES_LIMIT
    with pytest.raises(OptionError, match="maxBatchBytes must be at most"):
        options(maxBatchBytes=str(BATCH_BYTES_LIMIT + 1))


def test_a_minimum_above_the_maximum_is_refused():
    with pytest.raises(OptionError, match=r"minOffsetsPerTrigger \(20\) must not exceed maxOffsetsPerTrigger \(10\)"):
        options(minOffsetsPerTrigger="20", maxOffsetsPerTrigger="10")


@pytest.mark.parametrize(("text", "ms"), [("500", 500), ("30s", 30_000), ("15m", 900_000), ("2 h", 7_200_000)])
def test_a_duration_has_a_unit(text, ms):
    assert options(maxTriggerDelay=text).admission.delay_max_ms == ms


@pytest.mark.parametrize("text", ["soon", "5 days", "-1s", "m"])
def test_a_duration_that_is_none_is_refused(text):
    with pytest.raises(OptionError, match=r"maxTriggerDelay: write a number and a unit"):
        options(maxTriggerDelay=text)


def test_the_isolation_level_is_that_of_kafkas_consumer():
    assert options().isolation == IsolationLevel.READ_UNCOMMITTED
    assert options(kafka__isolation__level="read_committed").isolation == IsolationLevel.READ_COMMITTED
    with pytest.raises(OptionError, match=r"kafka.isolation.level must be read_uncommitted or read_committed"):
        options(kafka__isolation__level="serializable")
