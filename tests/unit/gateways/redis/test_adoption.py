"""Records of other writers as entries: by random histories beside a naive model, live and read again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.gateways.redis import stream_index
from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.adopted_records import (
    Run,
    add_run,
    fields_of,
    own_records,
    read_fields,
    runs_of,
    sort_batches,
)
from ottla.gateways.redis.adoption import NODES_A_TURN, PIECE_RECORDS, Adoption, Look, _pieces
from ottla.gateways.redis.deletion import delete
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_id import ID_MAX
from ottla.gateways.redis.stream_records import Began
from ottla.gateways.redis.stream_snapshot import Prepared, SnapshotReader, write
from ottla.gateways.redis.trimming import Options, trim
from ottla.native import StreamAdds, build_batch, build_stream_batch, crc32c, walk_batches
from ottla.native.errors import KernelError

LIMITS = NodeLimits(bytes_max=4096, entries_max=4)


class Log:
    """The log of one stream in memory: batches in the order of their offsets."""

    def __init__(self) -> None:
        self.data = b""
        self.end_offset = 0

    def append(self, batch: bytearray) -> None:
        (info,) = walk_batches(bytes(batch), check_crc=True)[0]
        batch[:8] = self.end_offset.to_bytes(8, "big")
        self.data += batch
        self.end_offset += info.record_count

    def write(self, stream: Stream) -> None:
        """What is journaled goes into the log."""
        journal = stream.take_journal()
        if not journal:
            return
        for node in stream.unwritten:
            if node.offset < 0:
                node.offset = self.end_offset + node.journal_index
            node.written_id = node.last_id
        stream.unwritten = []
        self.append(build_stream_batch(journal))

    def write_foreign(self, values: list[bytes], timestamp_ms: int, codec: int) -> None:
        self.append(build_batch([(timestamp_ms, None, value, ()) for value in values], codec=codec))


def served() -> Stream:
    stream = Stream(LIMITS, lambda _: None)
    stream.log = SimpleNamespace(topic="t", latest=None, is_current=True, adopted_by=0, ended=lambda: None)
    return stream


def adoption_of(stream: Stream) -> Adoption:
    quiet: Any = SimpleNamespace(
        limits=LIMITS, changed=lambda _: None, serve_waiters=lambda: None, revive=lambda *_: False
    )
    clock: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: 1_000))
    return Adoption(stream, clock, quiet)


def adopt(stream: Stream, log: Log, *, keeps: bool) -> None:
    adoption, start = adoption_of(stream), stream.adopted_to
    pieces = list(_pieces(sort_batches(log.data).foreign, start))
    offsets = [each.first + at for each in pieces for at in range(each.record_count)]
    fields = read_fields(log.data, offsets) if keeps and offsets else {}
    for look in adoption._cut(Look(pieces, log.end_offset, fields)):
        adoption._adopt(look)


def read_again(log: Log, stream: Stream | None = None, start: int = 0) -> Stream:
    made = stream or served()
    batches, snapshots = sort_batches(log.data), SnapshotReader(made)
    for offset, _, _, value, headers in own_records(log.data, batches, start):
        header = records.kind_of(headers)
        assert header is not None
        assert value is not None
        entry_id = records.entry_id_of(header)
        if entry_id is None:
            mark = records.decode_mark(value)
            if isinstance(mark, records.Snapshot):
                snapshots.begin(mark)
            elif snapshots.is_reading:
                snapshots.take(mark)
                if snapshots.is_whole:
                    list(snapshots.slices())
            else:
                made.apply_mark(mark)
        else:
            made.load_entry(entry_id, offset, begins=header[:1] == records.NODE)
    return made


def fill(stream: Stream, log: Log) -> Stream:
    """Have all entries in memory, those of other writers read from where the nodes say that they are."""
    values = {
        entry_id: records.decode_fields(value)
        for _, _, _, value, headers in own_records(log.data, sort_batches(log.data), 0)
        if (kind := records.kind_of(headers)) and (entry_id := records.entry_id_of(kind)) is not None and value
    }
    for node in stream.nodes:
        if node.entries is not None:
            continue
        if node.is_adopted:
            runs = list(runs_of(node.runs))
            offsets = [run.offset + at for run in runs for at in range(run.record_count)]
            ids = [run.first_id + at for run in runs for at in range(run.record_count)]
            found = read_fields(log.data, offsets)
            inside = {entry_id: found[offset] for entry_id, offset in zip(ids, offsets, strict=True)}
        else:
            inside = {at: each for at, each in sorted(values.items()) if node.first_id <= at <= node.last_id}
        node.entries = {at: each for at, each in inside.items() if not node.has_removed(at)}
    return stream


def told(stream: Stream) -> tuple[object, ...]:
    nodes = [(node.first_id, node.last_id, node.count, node.deleted, node.runs) for node in stream.nodes]
    return stream.length, stream.last_id, stream.max_deleted_id, stream.entries_added, nodes, stream.key


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3)),
        st.tuples(st.just("foreign"), st.integers(1, 9)),
        st.tuples(st.just("adopt"), st.integers(0, 1)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("trim"), st.integers(0, 30)),
        st.tuples(st.just("write_index"), st.just(0)),
        st.tuples(st.just("snapshot"), st.just(0)),
        st.tuples(st.just("reload"), st.integers(0, 1)),
    ),
    max_size=40,
)


class History:
    """A stream, its log, and a dict that says what its entries are."""

    def __init__(self) -> None:
        self.stream, self.log, self.index = served(), Log(), b""
        self.stream.mark(0, Began(0, b"s"))
        self.model: dict[int, list[bytes]] = {}
        self.waiting: list[bytes] = []
        self.number = self.added = 0

    def add(self, gap: int) -> None:
        entry_id, fields = self.stream.last_id + 1 + gap, [b"f", b"%d" % self.number]
        self.stream.append(entry_id, fields, 0)
        self.model[entry_id] = fields
        self.number += 1
        self.added += 1

    def foreign(self, count: int) -> None:
        values = [b"%d" % (self.number + at) for at in range(count)]
        self.number += count
        self.log.write_foreign(values, count - 1, codec=count % 5)
        self.waiting += values

    def adopt(self, keeps: int) -> None:
        before = self.stream.last_id
        adopt(self.stream, self.log, keeps=bool(keeps))
        new = [at for at, _ in fill(self.stream, self.log).range(before + 1, ID_MAX)]
        self.model |= {at: [b"value", value] for at, value in zip(new, self.waiting, strict=True)}
        self.added += len(self.waiting)
        self.waiting = []

    def delete(self, at: int) -> None:
        if self.model:
            entry_id = sorted(self.model)[at % len(self.model)]
            del self.model[entry_id]
            delete(self.stream, [entry_id], 0)

    def trim(self, length: int) -> None:
        trim(self.stream, Options(length_max=length), 0)
        self.model = dict(sorted(self.model.items())[-length:]) if length else {}

    def write_index(self, _: int) -> None:
        self.index += stream_index.part_of(
            self.stream, self.log.end_offset, 0, list(self.stream.changed), Prepared(self.stream, 0).groups()
        )
        self.stream.changed.clear()
        self.stream.gone.clear()

    def snapshot(self, _: int) -> None:
        write(self.stream, Prepared(self.stream, 0), 0, self.log.end_offset, cleans=False)

    def reload(self, has_index: int) -> None:
        before, again, start = told(self.stream), served(), 0
        found = stream_index.read_parts(self.index) if has_index else None
        if found is not None:
            list(stream_index.restore(again, *found[:2]))
            start = found[0].end_offset
        again = read_again(self.log, again, start)
        assert told(again) == before
        assert again.adopted_to <= self.stream.adopted_to
        if not self.index or found is not None:  # what an index lacks is not known from the log alone
            self.stream = again


EXAMPLE = [("foreign", 9), ("adopt", 1), ("add", 0), ("delete", 2), ("write_index", 0), ("foreign", 3)]


@given(STEPS)
@example(
    [*EXAMPLE, ("reload", 1), ("adopt", 0), ("add", 1), ("foreign", 2), ("adopt", 1), ("reload", 1), ("reload", 0)]
)
def test_every_history_gives_the_entries_of_the_model_however_often_it_is_read_again(
    steps: list[tuple[str, int]],
) -> None:
    history = History()
    for kind, argument in steps:
        history.log.write(history.stream)
        getattr(history, kind)(argument)
        stream = fill(history.stream, history.log)
        assert dict(stream.range(0, ID_MAX)) == history.model
        assert list(stream.reverse_range(0, ID_MAX)) == list(stream.range(0, ID_MAX))[::-1]
        assert (stream.length, stream.entries_added) == (len(history.model), history.added)
        assert all(node.count + node.deleted <= LIMITS.entries_max for node in stream.nodes if node.is_adopted)


def test_what_is_left_of_the_log_once_its_beginning_is_freed_gives_the_same_entries() -> None:
    stream, log = served(), Log()
    stream.mark(0, Began(0, b"s"))
    for number in range(12):
        stream.append(stream.last_id + 1, [b"f", b"v"], 0)
        log.write(stream)
        log.write_foreign([b"%d" % number] * 3, number, 0)
        if number % 3:
            adopt(stream, log, keeps=False)
            log.write(stream)
    adopt(stream, log, keeps=False)
    log.write(stream)
    trim(fill(stream, log), Options(length_max=20), 0)
    log.write(stream)
    first = min(node.offset for node in stream.nodes)
    write(stream, Prepared(stream, 0), 0, log.end_offset, cleans=False)
    log.write(stream)
    again = served()
    batches, rest = sort_batches(log.data), Log()
    rest.data = b"".join(
        log.data[each.position : each.position + each.size] for each in batches.all if each.last_offset >= first
    )
    assert len(rest.data) < len(log.data)
    assert told(read_again(rest, again, first)) == told(stream)


def test_runs_that_continue_each_other_are_one() -> None:
    data = add_run(add_run(add_run(b"", Run(5, 2, 70)), Run(7, 3, 72)), Run(11, 1, 75))
    assert list(runs_of(data)) == [Run(5, 5, 70), Run(11, 1, 75)]


def test_ids_never_go_back_and_are_not_ahead_of_the_clock() -> None:
    stream, log = served(), Log()
    stream.mark(0, Began(0, b"s"))
    log.write(stream)
    for timestamp_ms in (500, 400, 9_000):
        log.write_foreign([b"a", b"b"], timestamp_ms, 0)
    adopt(stream, log, keeps=True)
    assert [(at >> 64, at & 0xFFFF) for at, _ in stream.range(0, ID_MAX)] == [
        (500, 0),
        (500, 1),
        (500, 2),
        (500, 3),
        (1_000, 0),
        (1_000, 1),
    ]


def test_what_is_adopted_in_one_turn_has_a_limit_within_batches_too() -> None:
    stream, log = served(), Log()
    stream.mark(0, Began(0, b"s"))
    log.write(stream)
    log.write_foreign([b""] * 3 * PIECE_RECORDS, 1, 0)
    for number in range(2 * NODES_A_TURN):
        log.write_foreign([b"%d" % number], number, 0)
    adopt(stream, log, keeps=False)
    marks = [records.decode_mark(each[2]) for each in stream.journal if not isinstance(each, StreamAdds)]
    parts = [each for each in marks if isinstance(each, records.Adopted)]
    limit = NODES_A_TURN + PIECE_RECORDS // LIMITS.entries_max + 1
    assert max(len(each.rows) for each in parts) <= limit
    assert [each.rows[0][0] for each in parts[1:]] == [each.end_offset for each in parts[:-1]]
    assert stream.length == 3 * PIECE_RECORDS + 2 * NODES_A_TURN
    log.write(stream)
    assert told(read_again(log)) == told(stream)


def test_where_there_are_no_more_ids_there_are_no_more_entries() -> None:
    stream, log = served(), Log()
    stream.append(ID_MAX - 1, [b"f", b"v"], 0)
    log.write(stream)
    log.write_foreign([b"a", b"b"], 1, 0)
    adopt(stream, log, keeps=True)
    assert stream.length == 1
    assert stream.adopted_to == log.end_offset
    assert not stream.journal


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_that_cannot_be_read_holds_up_nobody(codec: int) -> None:
    log = Log()
    log.write_foreign([b"a" * 100], 1, codec)
    broken = bytearray(build_batch([(1, None, b"b" * 100, ())], codec=codec))
    broken[61:] = bytes(len(broken) - 61)
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    log.append(broken)
    log.write_foreign([b"c"], 1, 0)
    found = sort_batches(log.data)
    assert [each.spans for each in found.foreign] == [[(0, 1)], [(2, 1)]]
    assert found.unreadable == {1}
    assert own_records(log.data, found, 0) == []


def test_a_batch_of_the_stream_that_cannot_be_read_is_an_error() -> None:
    log, stream = Log(), served()
    stream.append(1, [b"f", b"v"], 0)
    log.write(stream)
    log.data = log.data[:-1] + b"?"
    with pytest.raises(KernelError):
        sort_batches(log.data)


def test_fields_are_named_so_that_none_is_another() -> None:
    assert fields_of(None, None, []) == [b"value", b""]
    assert fields_of(b"", b"v", [("value", b"h"), ("key", None)]) == [
        *(b"value", b"v", b"key", b""),
        *(b"header.value", b"h", b"header.key", b""),
    ]
