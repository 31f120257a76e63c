"""The small files of a data directory and the settings of a user, changed by somebody else: read, or refused by name.

which file, 1 byte | content
"""

from collections.abc import Callable

from ottla.model.errors import InvalidInputError
from ottla.native import crc32c
from ottla.settings.properties import parse_properties
from ottla.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache
from ottla.storage.meta_properties import format_meta_properties, parse_meta_properties
from ottla.storage.offset_checkpoint import format_checkpoint, parse_checkpoint
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.partition_metadata import format_partition_metadata, parse_partition_metadata
from ottla.storage.producer_snapshot import decode_snapshot, encode_snapshot
from ottla.storage.producer_state_manager import ProducerStateManager
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex

BASE_OFFSET = 1 << 33
LOG_BYTES = 5000


def offset_index(data: bytes) -> None:
    """What is kept of an index grows, lies in the log, and is found."""
    index = OffsetIndex(BASE_OFFSET, data)
    was_sound = index.looks_sound(LOG_BYTES)
    for offset in (0, BASE_OFFSET, BASE_OFFSET + 77, 1 << 62):
        index.lookup(offset)
    index.truncate_to_sound(LOG_BYTES)
    assert index.looks_sound(LOG_BYTES)
    assert data.startswith(index.to_bytes())
    entries = [index[number] for number in range(len(index))]
    assert entries == sorted(set(entries))
    for entry in entries:
        assert 0 <= entry.position < LOG_BYTES
        assert index.lookup(entry.offset) == entry
    if len(entries) * 8 == len(data):
        assert was_sound
    index.truncate_to(BASE_OFFSET + 77)
    assert all(index[number].offset < BASE_OFFSET + 77 for number in range(len(index)))


def time_index(data: bytes) -> None:
    """What is kept of a time index never goes back, and is found."""
    index = TimeIndex(BASE_OFFSET, data)
    index.looks_sound()
    for timestamp in (-1, 0, 1 << 40, 1 << 62):
        index.lookup(timestamp)
    index.truncate_to_sound()
    assert index.looks_sound()
    assert data.startswith(index.to_bytes())
    for number in range(len(index)):
        assert index.lookup(index[number].timestamp) == index[number]
    index.truncate_to(BASE_OFFSET + 77)
    assert all(index[number].offset < BASE_OFFSET + 77 for number in range(len(index)))


def leader_epochs(data: bytes) -> None:
    """Epochs and offsets grow, whatever the file says."""
    cache = LeaderEpochCache()
    for epoch, start_offset in parse_checkpoint(data, 2):
        try:
            entry = EpochEntry(int(epoch), int(start_offset))
        except ValueError:
            return
        cache.assign(*entry)
    for one, other in zip(cache.entries, cache.entries[1:], strict=False):
        assert one.epoch < other.epoch
        assert one.start_offset < other.start_offset
    assert parse_checkpoint(format_checkpoint(cache.entries), 2) == [list(map(str, entry)) for entry in cache.entries]


def offset_checkpoint(data: bytes) -> None:
    """Words that were read are written as they were."""
    entries = parse_checkpoint(data, 3)
    assert parse_checkpoint(format_checkpoint(entries), 3) == entries


def partition_metadata(data: bytes) -> None:
    """An id comes back."""
    topic_id = parse_partition_metadata(data)
    assert parse_partition_metadata(format_partition_metadata(topic_id)) == topic_id


def meta_properties(data: bytes) -> None:
    """Whose directory it is can be written and read again."""
    found = parse_meta_properties(data)
    again = parse_meta_properties(format_meta_properties(found))
    assert again == found, (again, found)


def snapshot(data: bytes) -> None:
    """Producers that were read are written as a file that reads the same; with the checksum made right as well."""
    for content in (data, data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]):
        try:
            states = decode_snapshot(content)
        except InvalidInputError:
            continue
        ProducerStateManager(states)
        written = encode_snapshot(states)
        assert encode_snapshot(decode_snapshot(written)) == written


def transaction_index(data: bytes) -> None:
    """An index that looks sound finds each of its transactions, and no other one, in every range."""
    index = TransactionIndex(data)
    for start, end in ((0, 1 << 62), (BASE_OFFSET, BASE_OFFSET + 77), (-1, -1)):
        found, _ = index.between(start, end)
        assert len(found) <= len(index)
    index.require_sound(BASE_OFFSET, BASE_OFFSET + 1000)
    assert TransactionIndex(b"".join(each.encode() for each in index)).to_bytes() == data
    for each in index:
        found, _ = index.between(each.last_offset, each.last_offset + 1)
        assert (each.producer_id, each.first_offset) in found
        assert each.encode() not in index.up_to(each.last_offset)
    assert index.up_to(BASE_OFFSET + 1000) == data


def properties(data: bytes) -> None:
    """Every key and value is text that can be printed and written."""
    for key, value in parse_properties(data.decode(errors="replace")).items():
        (key + value).encode()


FILES: tuple[Callable[[bytes], None], ...] = (
    offset_index,
    time_index,
    leader_epochs,
    offset_checkpoint,
    partition_metadata,
    meta_properties,
    snapshot,
    properties,
    transaction_index,
)


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    try:
        FILES[data[0] % len(FILES)](data[1:])
    except InvalidInputError as error:
        str(error).encode()
