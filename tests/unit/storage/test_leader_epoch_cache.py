"""The history of leader epochs against a list that names the epoch of every offset."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.runtime.disk import OsDisk
from ottla.storage.leader_epoch_cache import LeaderEpochCache, read_leader_epochs
from ottla.storage.offset_checkpoint import MalformedCheckpointError

histories = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=8).map(
    lambda steps: [sum(s for s, _ in steps[: n + 1]) for n, (_, length) in enumerate(steps) for _ in range(length)]
)
"""The epoch of each offset, growing."""


def filled(epochs: list[int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        cache.assign(epoch, offset)
    return cache


@given(histories)
def test_every_offset_has_the_epoch_it_was_written_in(epochs: list[int]):
    cache = filled(epochs)
    assert [cache.epoch_of(offset) for offset in range(len(epochs))] == epochs
    assert cache.latest_epoch == (epochs[-1] if epochs else -1)


@given(histories, st.integers(-1, 30))
def test_the_end_of_an_epoch_is_where_a_newer_one_begins(epochs: list[int], asked: int):
    found = filled(epochs).end_offset(asked, len(epochs))
    if asked < 0 or not epochs or asked > epochs[-1]:
        assert found == (-1, -1)
        return
    older = [epoch for epoch in epochs if epoch <= asked]
    assert found == (older[-1] if older else asked, len(older))


@given(histories, st.integers(0, 45))
def test_cutting_the_end_leaves_the_history_of_what_stays(epochs: list[int], end: int):
    cache = filled(epochs)
    cache.truncate_from_end(end)
    assert cache.entries == filled(epochs[:end]).entries
    assert cache.latest_epoch == filled(epochs[:end]).latest_epoch


@given(histories, st.integers(0, 45))
def test_cutting_the_start_leaves_the_epochs_of_what_stays(epochs: list[int], start: int):
    cache = filled(epochs)
    cache.truncate_from_start(start)
    assert [cache.epoch_of(offset) for offset in range(start, len(epochs))] == epochs[start:]
    assert cache.latest_epoch == (cache.entries[-1].epoch if cache.entries else -1)
    assert all(entry.start_offset >= min(start, len(epochs)) for entry in cache.entries[1:])
    if cache.entries and start < len(epochs):
        assert cache.entries[0].start_offset == start


def test_an_epoch_nobody_wrote_in_gives_way_to_the_next():
    cache = LeaderEpochCache()
    cache.assign(1, 10)
    cache.assign(2, 10)
    assert cache.entries == ((2, 10),)


def test_the_file_is_kafkas_text_and_comes_back(tmp_path: Path):
    path = str(tmp_path / "leader-epoch-checkpoint")
    cache = filled([0, 0, 2, 2, 2, 3])
    assert cache.is_dirty
    cache.write(OsDisk(), path)
    assert not cache.is_dirty
    assert Path(path).read_text() == "0\n3\n0 0\n2 2\n3 5\n"
    assert read_leader_epochs(OsDisk(), path).entries == cache.entries
    assert read_leader_epochs(OsDisk(), path + ".missing").entries == ()


@pytest.mark.parametrize("text", ["", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 0 0\n", "0\n1\nx 0\n", "\xff"])
def test_a_broken_file_is_told_from_a_good_one(tmp_path: Path, text: str):
    (tmp_path / "c").write_bytes(text.encode("latin-1"))
    with pytest.raises(MalformedCheckpointError):
        read_leader_epochs(OsDisk(), str(tmp_path / "c"))
