import pytest

from ottla.metadata.store.location import is_shared, open_store
from ottla.settings.definition import InvalidSettingError


async def test_the_embedded_store_lies_in_the_data_directory_or_where_it_is_said_to(tmp_path):
    below = tmp_path / "a" / "b"
    for location, directory in (
        ("embedded", tmp_path),
        (f"embedded:{below}", below),
        (f"embedded:{tmp_path}/c/metadata.db", tmp_path / "c"),
    ):
        store = open_store(location, tmp_path)
        await store.open("cluster")
        await store.close()
        assert (directory / "metadata.db").exists()


def test_a_store_that_only_one_broker_may_use_is_told_from_the_others():
    assert not is_shared("embedded")
    assert is_shared("embedded:/var/lib/ottla")
    assert is_shared("zookeeper://a:2181,[::1]:2181,c/ottla")


@pytest.mark.parametrize(
    "location",
    [
        "",
        "embedded:",
        "sqlite",
        "zookeeper:/a:2181",
        "zookeeper://",
        "zookeeper://a:b/x",
        "zookeeper://a,,b",
        "zookeeper://a//b",
    ],
)
def test_what_is_no_location_is_refused_with_what_to_write(tmp_path, location):
    with pytest.raises(InvalidSettingError, match="write ") as refused:
        open_store(location, tmp_path)
    assert "\n" not in str(refused.value)
