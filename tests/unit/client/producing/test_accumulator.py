"""Whatever is lost on the way, an idempotent producer's records end up once each and in order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.producing.accumulator import BatchLimits, RecordAccumulator
from ottla.client.producing.producer_batch import Compression, Identity, ProducerBatch, record_bytes
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, decode_records, validate_batches
from ottla.records.batch import NO_SEQUENCE, next_sequence
from tests.unit.client.model_log import ModelLog

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
LIMITS = BatchLimits(batch_bytes=400, linger_ms=10)
IDENTITY = Identity(77, 0)


def accumulator(*, idempotent: bool = True, limits: BatchLimits = LIMITS, **options) -> RecordAccumulator:
    return RecordAccumulator(limits, idempotent=idempotent, **options)


def append(to: RecordAccumulator, value: bytes, place: TopicPartition = PLACE, now_ms: int = 0):
    return to.append(place, (0, None, value, ()), record_bytes(None, value, ()), now_ms)


def values_of(batch: ProducerBatch) -> list[bytes | None]:
    encoded = batch.encode(Compression(), IDENTITY)
    return [record[3] for record in decode_records(encoded, max_decompressed_bytes=1 << 20)]


def test_a_record_of_an_idle_partition_is_sent_at_once():
    records = accumulator()
    append(records, b"a")
    assert records.sendable(now_ms=0) == [PLACE]


def test_while_an_answer_is_awaited_records_linger_for_company():
    records = accumulator()
    append(records, b"a")
    records.take([PLACE], 1_000, 0)
    append(records, b"b", now_ms=5)
    assert records.sendable(14) == []
    assert records.next_due_ms(14) == 15
    assert records.sendable(15) == [PLACE]


def test_no_more_batches_pass_one_that_is_not_answered_than_a_leader_would_know_it_behind():
    records = accumulator()

    def sent() -> ProducerBatch:
        append(records, b"a")
        records.flush()
        (batch,) = records.take([PLACE], 1_000, 0)
        return batch

    lost = sent()
    for offset in range(1, 5):  # by a leader that has taken over, with what is not answered
        records.succeed(sent(), offset, 0)
    append(records, b"b")
    records.flush()
    assert records.sendable(0) == []
    assert records.next_due_ms(0) is None

    records.retry(lost, 7, is_uncertain=True)
    assert records.take([PLACE], 1_000, 7) == [lost]
    records.succeed(lost, 0, 0)
    assert [batch.sequence for batch in records.take([PLACE], 1_000, 7)] == [5]


def test_without_numbers_any_number_of_batches_may_pass_another():
    records = accumulator(idempotent=False)
    for _ in range(7):
        append(records, b"a")
        records.flush()
        assert len(records.take([PLACE], 1_000, 0)) == 1


def test_a_full_batch_does_not_linger():
    records = accumulator()
    append(records, b"a")
    records.take([PLACE], 1_000, 0)
    for _ in range(3):
        append(records, b"x" * 150)
    assert records.sendable(0) == [PLACE]


def test_flushing_ends_lingering():
    records = accumulator()
    append(records, b"a")
    records.take([PLACE], 1_000, 0)
    append(records, b"b")
    records.flush()
    assert records.sendable(0) == [PLACE]


def test_a_request_takes_one_batch_of_a_partition_and_no_more_bytes_than_allowed():
    records = accumulator()
    for place in (PLACE, OTHER):
        for _ in range(6):
            append(records, b"x" * 150, place)
    taken = records.take([PLACE, OTHER], 400, 0)
    assert [batch.topic_partition for batch in taken] == [PLACE]
    assert [batch.topic_partition for batch in records.take([PLACE, OTHER], 5_000, 0)] == [PLACE, OTHER]


def test_a_batch_larger_than_a_request_may_be_is_still_taken_alone():
    records = accumulator()
    append(records, b"x" * 5_000)
    assert len(records.take([PLACE], 100, 0)) == 1


def test_a_batch_is_not_sent_again_before_its_time_nor_while_others_are_in_flight():
    records = accumulator()
    append(records, b"a")
    [first] = records.take([PLACE], 1_000, 0)
    append(records, b"b")
    records.flush()
    [second] = records.take([PLACE], 1_000, 0)
    records.retry(first, 50)
    assert records.sendable(60) == []
    records.retry(second, 60)
    assert records.sendable(49) == []
    assert records.sendable(50) == [PLACE]
    assert records.take([PLACE], 1_000, 60) == [first]


def test_a_batch_that_is_sent_again_is_alone_on_its_way():
    """Else more batches could pass it than a broker remembers, and it would be appended twice."""
    records = accumulator()
    append(records, b"a")
    [first] = records.take([PLACE], 1_000, 0)
    records.retry(first, 0)
    append(records, b"b")
    records.flush()
    assert records.take([PLACE], 1_000, 0) == [first]
    assert records.sendable(0) == []
    records.succeed(first, 0, -1)
    assert records.sendable(0) == [PLACE]


def test_memory_is_accounted_for_until_the_fate_is_known():
    records = accumulator()
    for index in range(10):
        append(records, b"x" * 100, PLACE if index % 2 else OTHER)
    while places := records.sendable(1_000):
        for batch in records.take(places, 10_000, 1_000):
            records.succeed(batch, 0, -1)
    assert (records.pending_bytes, records.pending_batches) == (0, 0)


def test_what_waited_too_long_is_found_unless_it_is_in_flight():
    records = accumulator()
    append(records, b"a", now_ms=0)
    [in_flight] = records.take([PLACE], 1_000, 0)
    append(records, b"b", now_ms=1)
    append(records, b"c", OTHER, now_ms=9)
    [old] = records.older_than(5)
    assert old is not in_flight
    assert values_of(old) == [b"b"]


def test_those_who_ask_are_told_what_was_given_up():
    told = []
    records = accumulator(on_give_up=lambda *what: told.append(what))
    delivery = append(records, b"a")
    error = OSError("no")
    records.fail(records.take([PLACE], 1_000, 0)[0], error)
    assert told == [(PLACE, 1, error)]
    assert delivery.error is error


def test_a_batch_too_large_for_the_broker_is_sent_in_two():
    records = accumulator(limits=BatchLimits(100_000, 0))
    deliveries = [append(records, b"%d" % number) for number in range(5)]
    append(records, b"other", OTHER)
    [batch] = records.take([PLACE], 100_000, 0)
    batch.encode(Compression(), IDENTITY)
    records.split(batch)
    [first] = records.take([PLACE], 100_000, 0)
    assert (first.sequence, values_of(first)) == (0, [b"0", b"1", b"2"])
    records.succeed(first, 10, -1)
    [second] = records.take([PLACE], 100_000, 0)
    assert (second.sequence, values_of(second)) == (3, [b"3", b"4"])
    assert not deliveries[0].done
    records.succeed(second, 20, -1)
    assert [delivery.result().offset for delivery in deliveries] == [10, 11, 12, 20, 21]


def test_an_encoded_batch_gets_the_producers_number_and_a_right_checksum():
    records = accumulator()
    append(records, b"before")
    encoded = build_batch([(0, None, b"a", ()), (0, None, b"b", ())])
    records.append_encoded(ProducerBatch.of_encoded(PLACE, 0, encoded, 2))
    records.take([PLACE], 1_000, 0)
    [batch] = records.take([PLACE], 1_000, 0)
    [info] = validate_batches(batch.encode(Compression(), IDENTITY))
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.last_sequence) == (77, 0, 1, 2)


def test_a_new_epoch_numbers_what_was_numbered_first():
    records = accumulator()
    append(records, b"a")
    [first] = records.take([PLACE], 1_000, 0)
    append(records, b"b")
    records.flush()
    [second] = records.take([PLACE], 1_000, 0)
    append(records, b"c")
    records.retry(second, 0)
    records.fail(first, OSError())
    records.renumber()
    assert second.sequence == 0
    assert records.take([PLACE], 1_000, 0) == [second]
    records.succeed(second, 0, -1)
    [third] = records.take([PLACE], 1_000, 0)
    assert third.sequence == 1


def test_before_a_new_epoch_only_what_may_have_been_appended_is_sent_and_under_its_old_number():
    records = accumulator()
    append(records, b"given up")
    append(records, b"unanswered", OTHER)
    first, second = records.take([PLACE, OTHER], 1_000, 0)
    append(records, b"new")
    append(records, b"newer", OTHER)
    records.fail(first, OSError())
    records.retry(second, 5, is_uncertain=True)
    assert records.has_uncertain
    records.settles = True
    assert (records.sendable(4), records.next_due_ms(4)) == ([], 5)
    assert records.sendable(5) == [OTHER]
    assert records.take([OTHER], 1_000, 5) == [second]
    assert second.sequence == 0
    assert records.sendable(1_000) == []
    records.succeed(second, 0, -1)
    assert not records.has_uncertain
    records.settles = False
    records.renumber()
    assert [batch.sequence for batch in records.take([PLACE, OTHER], 1_000, 1_000)] == [0, 0]


@pytest.mark.parametrize(("sequence", "count", "following"), [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3)])
def test_numbers_begin_again_after_the_last(sequence, count, following):
    assert next_sequence(sequence, count) == following


fates = st.sampled_from(["ok", "lost before", "lost after"])


class Wire:
    """Takes what can be sent to a model broker and brings answers back, of which some are lost on either way."""

    def __init__(self, records: RecordAccumulator, in_flight_max: int) -> None:
        self.records = records
        self.log = ModelLog()
        self.in_flight: list[ProducerBatch] = []
        self.in_flight_max = in_flight_max

    def pump(self, fates: list[str]) -> None:
        """Send what can be sent, then let this befall the oldest requests."""
        while len(self.in_flight) < self.in_flight_max and (places := self.records.sendable(1_000)):
            self.in_flight += self.records.take(places, 10_000, 1_000)
        for fate in fates[: len(self.in_flight)]:
            self._answer(self.in_flight.pop(0), fate)

    def _answer(self, batch: ProducerBatch, fate: str) -> None:
        code, offset = ErrorCode.REQUEST_TIMED_OUT, -1
        if fate != "lost before":
            code, offset = self.log.append(batch.encode(Compression(), IDENTITY))
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            assert not self.records.is_first(batch), "a gap that no earlier batch explains"
        if code == ErrorCode.NONE and fate == "ok":
            self.records.succeed(batch, offset, -1)
        else:
            self.records.retry(batch, 0)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.lists(fates, max_size=6)), max_size=25),
    st.sampled_from([0, 5, 2**31 - 3]),
    st.integers(1, 5),
)
def test_records_arrive_once_and_in_order_whatever_is_lost(steps, first_sequence, in_flight_max):
    """Requests and answers are lost at will; the model broker refuses every gap and recognises duplicates."""
    records = accumulator()
    wire = Wire(records, in_flight_max)
    if first_sequence:
        wire.log.producers[77] = [(0, first_sequence - 1, first_sequence - 1, 0)]
        records._queue(PLACE).next_sequence = first_sequence
    sent: list[bytes] = []
    for count, befallen in steps:
        for _ in range(count):
            sent.append(b"%d" % len(sent) + b"." * 60)
            append(records, sent[-1])
        wire.pump(befallen)
    while records.pending_batches:
        wire.pump(["ok"] * 10)
    assert wire.log.values == sent


def test_a_batch_without_a_number_keeps_none_without_idempotence():
    records = accumulator(idempotent=False)
    append(records, b"a")
    [batch] = records.take([PLACE], 1_000, 0)
    assert batch.sequence == NO_SEQUENCE
