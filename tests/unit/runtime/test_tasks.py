"""Tasks are held, reported and ended by their owner."""

import asyncio
import gc
import threading

import pytest

from ottla.runtime.tasks import Tasks, run_main


async def test_a_task_lives_until_it_ends_although_nobody_holds_it():
    tasks = Tasks()
    go: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def work() -> None:
        await go
        done.set()

    tasks.spawn(work(), "work")
    await asyncio.sleep(0)
    gc.collect()
    go.set_result(None)
    await done.wait()
    await asyncio.sleep(0)
    assert len(tasks) == 0
    await tasks.close()


async def test_a_crash_is_logged_with_its_name_and_told_to_the_owner(caplog: pytest.LogCaptureFixture):
    failures: list[tuple[str, str]] = []
    tasks = Tasks("tests", on_failure=lambda name, error: failures.append((name, str(error))))

    async def crash() -> None:
        raise RuntimeError("out of luck")

    task = tasks.spawn(crash(), "the crasher")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert failures == [("the crasher", "out of luck")]
    assert "the crasher" in caplog.text


async def test_what_has_not_to_wait_is_done_at_once_without_a_task():
    tasks = Tasks()
    done: list[int] = []

    async def inner(number: int) -> int:
        return number

    async def work() -> None:
        done.append(await inner(5))

    tasks.begin(work(), "work")
    assert (done, len(tasks)) == ([5], 0)


async def test_what_has_begun_goes_on_in_a_task_when_it_has_to_wait():
    tasks = Tasks()
    gates: list[asyncio.Future[int]] = [asyncio.get_running_loop().create_future() for _ in range(3)]
    done: list[object] = []

    async def work() -> None:
        done.append("begun")
        done.append(await gates[0])
        await asyncio.sleep(0)
        try:
            await gates[1]
        except LookupError as error:
            done.append(str(error))
        done.append(await gates[2])

    tasks.begin(work(), "work")
    assert (done, len(tasks)) == (["begun"], 1)
    gates[0].set_result(1)
    gates[1].set_exception(LookupError("nothing"))
    gates[2].set_result(2)
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    await asyncio.sleep(0)
    assert (done, len(tasks)) == (["begun", 1, "nothing", 2], 0)


@pytest.mark.parametrize("waits", [False, True])
async def test_what_has_begun_and_crashes_is_told_as_of_any_task(caplog: pytest.LogCaptureFixture, waits: bool):
    failures: list[tuple[str, str]] = []
    tasks = Tasks("tests", on_failure=lambda name, error: failures.append((name, str(error))))

    async def crash() -> None:
        if waits:
            await asyncio.sleep(0)
        raise RuntimeError("out of luck")

    tasks.begin(crash(), "the crasher")
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    await asyncio.sleep(0)
    assert failures == [("the crasher", "out of luck")]
    assert "the crasher" in caplog.text


async def test_what_has_begun_is_cancelled_as_any_task_is():
    tasks = Tasks()
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    tasks.begin(forever(), "forever")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == ["cleaned up"]


async def test_close_cancels_and_waits_for_what_tasks_do_at_their_end(caplog: pytest.LogCaptureFixture):
    tasks = Tasks()
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    tasks.spawn(forever(), "forever")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == ["cleaned up"]
    assert len(tasks) == 0
    assert caplog.text == ""


async def test_close_ends_tasks_that_the_ending_ones_spawn():
    tasks = Tasks()

    async def forever() -> None:
        await asyncio.Event().wait()

    async def spawns_at_its_end() -> None:
        try:
            await forever()
        finally:
            tasks.spawn(forever(), "late")

    tasks.spawn(spawns_at_its_end(), "parent")
    await asyncio.sleep(0)
    await tasks.close()
    assert len(tasks) == 0


async def test_a_blocking_call_runs_in_a_named_thread_and_brings_back_what_it_raises():
    tasks = Tasks("disk work")

    def name_of_thread(prefix: str, *, suffix: str) -> str:
        return prefix + threading.current_thread().name + suffix

    assert (await tasks.in_thread(name_of_thread, "<", suffix=">")).startswith("<disk work")
    with pytest.raises(FileNotFoundError):
        await tasks.in_thread(open, "/no/such/file")
    await tasks.close()


async def test_no_more_threads_than_allowed_run_at_a_time():
    tasks = Tasks(threads_max=2)
    both_in = threading.Barrier(2)
    running = 0
    most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both_in.wait(timeout=60)
        with lock:
            running -= 1

    await asyncio.gather(*(tasks.in_thread(work) for _ in range(6)))
    await tasks.close()
    assert most == 2


def test_run_main_returns_the_result_and_runs_on_uvloop_where_it_is_installed():
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run_main(main()) == "uvloop"
