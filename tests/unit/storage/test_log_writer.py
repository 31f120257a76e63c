"""When the event loop's side of the log I/O thread hands over what was asked for."""

import asyncio
import select
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from ottla.native import LogIo
from ottla.storage.log_io import SYNC, WRITTEN
from ottla.storage.log_writer import LogWriter


class Told:
    """A token that remembers what it was told."""

    def __init__(self) -> None:
        self.stages: list[int] = []

    def completed(self, stage: int, errno: int) -> None:
        assert errno == 0
        self.stages.append(stage)


@pytest.fixture
def io() -> Iterator[LogIo]:
    io = LogIo()
    yield io
    io.close()


def ignore(error: OSError) -> None:
    raise error


async def open_file(writer: LogWriter, path: Path) -> int:
    """A file that the thread has open."""
    handle = writer.create(str(path))
    await settled(writer, handle, 0)
    return handle


async def settled(writer: LogWriter, handle: int, position: int) -> None:
    told = Told()
    writer.append(handle, position, b"x" * 100, told, WRITTEN)
    async with asyncio.timeout(60):
        while not told.stages:  # noqa: ASYNC110 (a token knows no events)
            await asyncio.sleep(0)


async def test_what_a_run_of_requests_only_writes_is_written_when_the_run_ends(io: LogIo, tmp_path: Path) -> None:
    writer = LogWriter(io, ignore)
    writer.attach(asyncio.get_running_loop())
    path = tmp_path / "a.log"
    handle = await open_file(writer, path)
    size = 100
    for _ in range(100_000):  # the thread is idle a moment after it reported
        first, second = Told(), Told()
        writer.cork()
        writer.append(handle, size, b"a" * 100, first, WRITTEN)
        writer.append(handle, size + 100, b"b" * 100, second, WRITTEN)
        assert not first.stages
        writer.uncork()
        size += 200
        if first.stages:
            break
        await settled(writer, handle, size)
        size += 100
    assert (first.stages, second.stages) == ([WRITTEN], [WRITTEN])
    assert path.read_bytes()[-200:] == b"a" * 100 + b"b" * 100
    writer.detach()


async def test_what_is_to_be_synced_waits_to_share_its_sync(io: LogIo, tmp_path: Path) -> None:
    writer = LogWriter(io, ignore)
    writer.attach(asyncio.get_running_loop())
    handle = await open_file(writer, tmp_path / "a.log")
    groups, told = io.groups, [Told() for _ in range(3)]
    for number, token in enumerate(told):
        writer.cork()
        writer.append(handle, 100 + 100 * number, b"a" * 100, token, SYNC)
        writer.uncork()
    assert io.groups == groups
    async with asyncio.timeout(60):
        while not all(token.stages for token in told):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert io.groups == groups + 1
    assert [token.stages for token in told] == [[SYNC]] * 3
    writer.detach()


async def test_who_says_go_has_all_of_it_on_its_way_before_the_loop_turns(io: LogIo, tmp_path: Path) -> None:
    writer = LogWriter(io, ignore)  # of no loop: nothing is submitted by itself
    handle = writer.create(str(tmp_path / "a.log"))
    told = [Told() for _ in range(3)]
    writer.cork()
    for number, token in enumerate(told):
        writer.append(handle, 100 * number, b"a" * 100, token, SYNC)
    assert io.groups == 0
    writer.uncork_now()
    select.select([io.fileno()], [], [])
    writer.poll()
    assert io.groups == 1
    assert [token.stages for token in told] == [[SYNC]] * 3
    writer.uncork_now()
    assert io.groups == 1, "there is nothing more"


async def test_what_is_left_for_the_end_of_a_run_goes_with_the_run(io: LogIo, tmp_path: Path) -> None:
    writer = LogWriter(io, ignore)
    writer.attach(asyncio.get_running_loop())
    handle = await open_file(writer, tmp_path / "a.log")
    groups, told, calls = io.groups, [Told() for _ in range(4)], list[str]()

    def fail() -> None:
        writer.defer(lambda: calls.append("later"))
        raise ValueError("of the first one")

    def append(index: int) -> None:
        calls.append(f"append {index}")
        writer.append(handle, 100 * (index + 1), b"a" * 100, told[index], SYNC)

    writer.cork()
    writer.defer(fail)
    writer.defer(lambda: append(0))
    assert not calls
    writer.uncork_now()
    assert calls == ["append 0"]
    select.select([io.fileno()], [], [])  # the thread is done with it, and the loop has not turned
    assert io.groups == groups + 1
    writer.cork()
    writer.defer(lambda: append(1))
    writer.uncork()
    writer.defer(lambda: append(2))
    assert calls == ["append 0", "append 1"]
    async with asyncio.timeout(60):
        while not all(each.stages for each in told[:3]):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert calls == ["append 0", "append 1", "later", "append 2"]
    writer.detach()


async def test_who_hurries_has_the_thread_begin_with_the_first_that_is_synced(io: LogIo, tmp_path: Path) -> None:
    writer = LogWriter(io, ignore)  # of no loop
    handle = writer.create(str(tmp_path / "a.log"))
    hurried, told = Told(), Told()
    writer.cork()
    writer.flush_now()
    writer.append(handle, 0, b"i" * 8, None, 0)
    assert io.groups == 0, "an entry of an index goes with what it is of"
    writer.append(handle, 8, b"a" * 100, hurried, SYNC)
    select.select([io.fileno()], [], [])
    writer.append(handle, 108, b"b" * 100, told, SYNC)
    writer.poll()
    assert (io.groups, hurried.stages, told.stages) == (1, [SYNC], []), "the second is in no hurry"
    writer.flush_now()
    writer.cork()
    writer.append(handle, 208, b"c" * 100, None, SYNC)
    assert io.groups == 1, "another run begins"
    writer.uncork_now()
    while not told.stages:
        select.select([io.fileno()], [], [])
        writer.poll()
    assert io.groups == 2


async def test_what_is_answered_because_of_completions_is_gathered_also_if_one_fails(io: LogIo, tmp_path: Path) -> None:
    class Gathers:
        events: ClassVar[list[object]] = []

        def gather(self) -> None:
            self.events.append("gather")

        def send(self) -> None:
            self.events.append("send")

        def completed(self, stage: int, errno: int) -> None:
            self.events.append(stage)
            raise RuntimeError("a mistake")

    writer, answers = LogWriter(io, ignore), Gathers()
    writer.add_answers(answers)
    handle = writer.create(str(tmp_path / "a.log"))
    writer.append(handle, 0, b"a" * 100, answers, SYNC)
    writer.submit()
    select.select([io.fileno()], [], [])
    writer.poll()
    assert answers.events == ["gather", SYNC, "send"]
    writer.remove_answers(answers)
    writer.poll()
    assert len(answers.events) == 3


async def test_the_loop_is_woken_when_there_is_somebody_to_tell(io: LogIo, tmp_path: Path) -> None:
    writer, told = LogWriter(io, ignore), Told()
    handle = writer.create(str(tmp_path / "a.log"))
    writer.append(handle, 0, b"a" * 100, None, 0)
    writer.submit()
    while io.groups == 0 or io.queued_bytes:
        pass
    writer.append(handle, 100, b"b" * 100, told, SYNC)
    writer.submit()
    select.select([io.fileno()], [], [])
    writer.poll()
    assert told.stages == [SYNC], "neither for the first nor for what was written and not synced"


async def test_one_who_fails_when_his_write_is_done_keeps_nobody_else_from_hearing(io: LogIo, tmp_path: Path) -> None:
    class Failing:
        def completed(self, stage: int, errno: int) -> None:
            raise RuntimeError("a mistake")

        def report_progress(self) -> None:
            raise RuntimeError("a mistake")

    class Following:
        reports = 0

        def report_progress(self) -> None:
            self.reports += 1

    writer = LogWriter(io, ignore)
    handle = writer.create(str(tmp_path / "a.log"))
    told, following = Told(), Following()
    writer.append(handle, 0, b"a" * 100, Failing(), WRITTEN)
    writer.append(handle, 100, b"b" * 100, told, WRITTEN)
    writer.progressed[Failing()] = None
    writer.progressed[following] = None
    writer.attach(asyncio.get_running_loop())
    async with asyncio.timeout(60):
        while not told.stages:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert following.reports == 1
    writer.detach()


async def test_what_was_in_vain_is_not_tried_again_until_a_run_was_written_when_it_ended(
    io: LogIo, tmp_path: Path
) -> None:
    writer = LogWriter(io, ignore)
    writer.attach(asyncio.get_running_loop())
    handle = await open_file(writer, tmp_path / "a.log")
    assert writer.writes_here()
    assert not writer.write_here(handle + 1, 0, b"no such file")
    assert not writer.writes_here()
    size = 100
    for _ in range(100_000):  # the thread is idle a moment after it reported
        told = Told()
        writer.cork()
        writer.append(handle, size, b"a" * 100, told, WRITTEN)
        assert not writer.writes_here(), "something was asked for"
        writer.uncork()
        assert writer.writes_here() is bool(told.stages)
        if writer.writes_here():
            break
        await settled(writer, handle, size + 100)
        size += 200
    assert writer.write_here(handle, 0, b"b" * 100)
    assert writer.writes_here()
    writer.detach()
