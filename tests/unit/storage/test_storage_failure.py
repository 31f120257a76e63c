"""A disk that fails: the directory goes offline at once, for good, and says so once."""

import errno
from pathlib import Path

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from tests.unit.storage.data_directory import batch, bytes_of, opened
from tests.unit.storage.test_log_io import file_size_limit


async def test_a_failed_write_takes_the_directory_offline_but_reads_go_on(tmp_path: Path):
    failures: list[OSError] = []
    async with opened(tmp_path) as directory:
        directory.manager.on_failure = failures.append
        log, other = await directory.log(), await directory.log(topic_partition=TopicPartition("other", 0))
        await directory.append_all(log, [batch(2)])
        directory.stages.clear()
        with file_size_limit(1000):
            directory.append(log, batch(1, value=b"x" * 2000))
            directory.append(log, batch(1))
            with pytest.raises(ApiError) as raised:
                await log.flush()
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert directory.stages == [(1, errno.EFBIG)] * 2 + [(2, errno.EFBIG)] * 2
        assert (log.written_end_offset, log.flushed_end_offset) == (2, 2)
        for refused in (log, other):
            with pytest.raises(ApiError) as raised:
                directory.append(refused, batch())
            assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert "offline" in raised.value.message
        with pytest.raises(ApiError):
            await directory.log(topic_partition=TopicPartition("third", 0))
        assert len(bytes_of(log.read(0, 1000, max_offset=10))) == len(batch(2))
        assert directory.manager.failure is failures[0]
    assert len(failures) == 1
    assert failures[0].errno == errno.EFBIG
    assert "write failed" in str(failures[0])
    assert "orders-0/00000000000000000000.log" in str(failures[0])


async def test_an_offline_directory_is_not_marked_clean_and_recovers_what_was_acknowledged(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [batch(3)])
        with file_size_limit(500):
            directory.append(log, batch(1, value=b"x" * 2000))
            with pytest.raises(ApiError):
                await log.flush()
    async with opened(tmp_path) as directory:
        assert not directory.report.was_clean
        log = await directory.log()
        assert log.log_end_offset == 3
        assert len(directory.report.cuts) == 1
        await directory.append_all(log, [batch(1)])
