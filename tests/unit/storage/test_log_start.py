"""The log start that somebody asked for and was promised: over segments, retention, checkpoints and kills."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import batch, batches_in, bytes_of, copy_as_after_a_kill, opened

SMALL = LogConfig(segment_bytes=400, retention_ms=-1, file_delete_delay_ms=1_000)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "delete", "retention", "later", "checkpoint", "kill", "kill while deleting"]
        ),
        st.integers(0, 10),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(STEPS)
def test_what_was_said_to_be_deleted_stays_deleted_and_the_rest_is_there(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
):
    """Against a model: where the log starts and ends. A tenth of what is there is deleted for each unit of a step."""
    path = tmp_path_factory.mktemp("log-start") / "0"

    async def run() -> None:
        nonlocal path
        start = end = generation = 0
        remaining = list(steps)
        while True:
            async with opened(path) as directory:
                log = await directory.log(SMALL)
                assert (log.log_start_offset, log.log_end_offset) == (start, end)
                if end > start:
                    read = batches_in(bytes_of(log.read(start, 1 << 20, max_offset=end)))
                    assert read[0][1] <= start <= read[0][2]
                    assert read[-1][2] + 1 == end
                while remaining:
                    step, amount = remaining.pop(0)
                    if step == "append":
                        await directory.append_all(log, [batch(2, value=b"x" * 30) for _ in range(amount)])
                        end += 2 * amount
                    elif step == "delete":
                        start = log.delete_records_before(start + (end - start) * amount // 10)
                        await directory.manager.checkpoint_log_starts()
                    elif step == "retention":
                        await directory.manager.apply_retention()
                    elif step == "later":
                        await directory.pass_time(1_000)
                    elif step == "checkpoint":
                        await directory.manager.checkpoint_recovery_points()
                    else:
                        reach = amount if step == "kill while deleting" else 0
                        wanted = log.delete_records_before(start + (end - start) * reach // 10)
                        break
                else:
                    return
                generation += 1
                path = copy_as_after_a_kill(path, str(generation))
            if wanted != start:
                async with opened(path) as directory:
                    # Nobody was told yet, so either is right.
                    assert (await directory.log(SMALL)).log_start_offset in (start, wanted)
                    start = (await directory.log(SMALL)).log_start_offset

    asyncio.run(run())
