"""With read_committed the records of aborted transactions are not seen, and all others are."""

from ottla.client.consuming.consumer_record import records_of
from ottla.client.consuming.fetch import AbortedTransaction, FetchedBatches
from ottla.client.consuming.visible_batches import visible_spans, whole_batches
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_offsets, build_batch
from ottla.records.control import ControlRecordType, encode_control_key


def data(producer: int, *values: bytes, transactional: bool = True) -> bytearray:
    return build_batch(
        [(0, None, value, ()) for value in values],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
    )


def marker(producer: int, kind: ControlRecordType) -> bytearray:
    return build_batch(
        [(0, encode_control_key(kind), bytes(6), ())],
        producer_id=producer,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def fetched(*batches: bytearray, aborted: tuple[tuple[int, int], ...] = (), offset: int = 0) -> FetchedBatches:
    log = bytearray(b"".join(batches))
    assign_offsets(log, 0, 0)
    return FetchedBatches(
        topic_partition=TopicPartition("t", 0),
        offset=offset,
        records=memoryview(log),
        high_watermark=100,
        last_stable_offset=100,
        log_start_offset=0,
        aborted=tuple(AbortedTransaction(*each) for each in aborted),
    )


def values(answer: FetchedBatches) -> list[bytes | None]:
    return [record.value for record in records_of(answer, decompressed_bytes_max=1 << 20)]


ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def test_without_transactions_everything_is_seen_in_one_piece():
    answer = fetched(data(-1, b"a", transactional=False), data(-1, b"b", transactional=False))
    assert values(answer) == [b"a", b"b"]
    assert len(list(visible_spans(answer, whole_batches(answer.records)))) == 1


def test_an_aborted_transaction_is_left_out_and_the_one_after_it_is_seen():
    answer = fetched(
        data(1, b"gone"), data(2, b"kept"), data(1, b"gone"), marker(1, ABORT), data(1, b"later"), marker(1, COMMIT),
        aborted=((1, 0),),
    )  # fmt: skip
    assert values(answer) == [b"kept", b"later"]


def test_records_of_a_producer_before_its_aborted_transaction_are_seen():
    answer = fetched(data(1, b"first"), marker(1, COMMIT), data(1, b"gone"), marker(1, ABORT), aborted=((1, 2),))
    assert values(answer) == [b"first"]


def test_two_aborted_transactions_of_one_producer_are_both_left_out():
    answer = fetched(
        data(1, b"x"), marker(1, ABORT), data(1, b"seen"), marker(1, COMMIT), data(1, b"y"), marker(1, ABORT),
        aborted=((1, 0), (1, 4)),
    )  # fmt: skip
    assert values(answer) == [b"seen"]


def test_records_outside_of_transactions_are_seen_between_aborted_ones():
    answer = fetched(data(1, b"gone"), data(1, b"plain", transactional=False), aborted=((1, 0),))
    assert values(answer) == [b"plain"]


def test_a_batch_that_is_cut_off_is_not_looked_at():
    answer = fetched(data(-1, b"a", transactional=False), data(-1, b"b", transactional=False))
    cut = FetchedBatches(
        **{name: getattr(answer, name) for name in ("topic_partition", "offset", "high_watermark")},
        records=answer.records[:-3],
        last_stable_offset=0,
        log_start_offset=0,
    )
    assert values(cut) == [b"a"]


def test_records_before_the_offset_asked_for_are_left_out():
    assert values(fetched(data(-1, b"a", b"b", b"c", transactional=False), offset=2)) == [b"c"]
