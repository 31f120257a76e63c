"""Only the owner of a data directory can read the secret of the cluster from it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.metadata.store.embedded import FILE_NAME, EmbeddedStore
from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.migration import move_metadata


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in directory.glob(f"{FILE_NAME}*")}


async def write(directory: Path) -> EmbeddedStore:
    store = EmbeddedStore(directory)
    await store.open("cluster")
    await store.cluster_secret(b"secret")
    return store


@pytest.mark.parametrize("umask", [0o000, 0o022], indirect=True)
async def test_files_with_the_secret_are_of_their_owner_alone(tmp_path: Path, umask: int) -> None:
    store = await write(tmp_path)
    assert modes(tmp_path) == dict.fromkeys([FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"], 0o600)
    await store.close()


@pytest.mark.parametrize("umask", [0o277], indirect=True)
async def test_the_owner_can_open_them_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    await (await write(tmp_path)).close()
    assert modes(tmp_path) == {FILE_NAME: 0o600}


@pytest.mark.parametrize("umask", [0o000], indirect=True)
async def test_what_was_moved_to_another_store_is_of_its_owner_alone(tmp_path: Path, umask: int) -> None:
    await (await write(tmp_path / "one")).close()
    await move_metadata(tmp_path / "one", f"embedded:{tmp_path / 'two'}")
    assert modes(tmp_path / "one") == {f"{FILE_NAME}.moved": 0o600}
    assert modes(tmp_path / "two") == {FILE_NAME: 0o600}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
@pytest.mark.parametrize("suffix", ["", "-wal"])
async def test_a_file_that_others_can_open_is_refused_with_the_command_that_closes_it(
    tmp_path: Path, suffix: str, mode: int
) -> None:
    await (await write(tmp_path)).close()
    path = tmp_path / f"{FILE_NAME}{suffix}"
    path.touch()
    path.chmod(mode)
    store = EmbeddedStore(tmp_path)
    with pytest.raises(StoreError) as refusal:
        await store.open("cluster")
    await store.close()
    assert f"mode {mode:04o}" in str(refusal.value)
    assert f"`chmod 600 {path}`" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    path.chmod(0o600)
    await (await write(tmp_path)).close()
