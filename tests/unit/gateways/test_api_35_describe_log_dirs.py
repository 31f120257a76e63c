"""DescribeLogDirs."""

import os

import pytest

from ottla.gateways.kafka.api_35_describe_log_dirs import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


async def ask(gateway, topics, version=API.max_version):
    (result,) = (await gateway.ask(API, DescribeLogDirsRequest(topics=topics), version)).results
    return result


def sizes(result):
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.fixture
async def filled(log_gateway):
    for topic, index, count in (("t", 0, 5), ("t", 1, 0), ("a", 0, 2)):
        partition = await log_gateway.partition(topic, index)
        if count:
            await log_gateway.append(partition, count)
    return log_gateway


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_log_is_told_with_its_size(filled, version):
    result = await ask(filled, None, version)
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(filled.directory))
    assert list(sizes(result)) == [("a", 0), ("t", 0), ("t", 1)]
    for (topic, index), size in sizes(result).items():
        assert size == sum(file.stat().st_size for file in (filled.directory / f"{topic}-{index}").glob("*.log"))
    assert sizes(result)["t", 0] > sizes(result)["a", 0] > 0
    assert not any(each.offset_lag or each.is_future_key for topic in result.topics for each in topic.partitions)
    if version >= 4:
        status = os.statvfs(filled.directory)
        assert result.total_bytes == status.f_blocks * status.f_frsize
        assert 0 < result.usable_bytes <= result.total_bytes


async def test_only_what_is_asked_for_and_there_is_told(filled):
    asked = (DescribableLogDirTopic("t", (1, 9)), DescribableLogDirTopic("nope", (0,)))
    assert sizes(await ask(filled, asked)) == {("t", 1): 0}
    assert sizes(await ask(filled, ())) == {}


async def test_a_directory_that_is_offline_says_so(filled):
    filled.logs.directories[0].writer.failure = OSError(5, "Input/output error")
    result = await ask(filled, None)
    assert (result.error_code, result.topics, result.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, (), -1)


async def test_the_reason_is_told_in_a_field_that_other_clients_skip(filled):
    filled.logs.directories[0].writer.failure = OSError(5, "write failed: Input/output error", "/disk/a-0")
    response = await filled.ask(API, DescribeLogDirsRequest(topics=()), API.max_version)
    [trouble] = response.troubles
    assert (trouble.log_dir, trouble.message) == (str(filled.directory), "/disk/a-0: write failed: Input/output error")
    assert (await filled.ask(API, DescribeLogDirsRequest(topics=()), 1)).troubles == ()
