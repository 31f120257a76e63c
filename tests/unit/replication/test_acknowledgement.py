from ottla.model.error_code import ErrorCode
from ottla.replication.acknowledgement import AckQueue, AppendAck


def ack(base_offset: int) -> AppendAck:
    return AppendAck(ErrorCode.NONE, base_offset=base_offset)


def test_an_append_is_acknowledged_once_the_high_watermark_has_passed_its_last_record():
    queue = AckQueue()
    told: list[AppendAck] = []
    queue.add(10, ack(5), told.append)
    queue.complete(9)
    assert told == []
    queue.complete(10)
    queue.complete(11)
    assert told == [ack(5)]


def test_acknowledgements_leave_in_offset_order_even_when_a_duplicate_enters_late():
    queue = AckQueue()
    told: list[AppendAck] = []
    queue.add(10, ack(5), told.append)
    queue.add(20, ack(10), told.append)
    queue.add(10, ack(5), told.append)
    queue.complete(10)
    assert [each.base_offset for each in told] == [5, 5]
    queue.complete(20)
    assert [each.base_offset for each in told] == [5, 5, 10]


def test_a_failed_log_answers_everybody_with_the_error_and_nobody_twice():
    queue = AckQueue()
    told: list[AppendAck] = []
    queue.add(10, ack(5), told.append)
    queue.add(20, ack(10), told.append)
    queue.fail(ErrorCode.KAFKA_STORAGE_ERROR, "disk on fire")
    queue.complete(100)
    assert [(each.error, each.message) for each in told] == [(ErrorCode.KAFKA_STORAGE_ERROR, "disk on fire")] * 2


def test_a_producer_that_appends_from_its_acknowledgement_waits_for_the_next_one():
    queue = AckQueue()
    told: list[int] = []

    def append_again(_: AppendAck) -> None:
        told.append(1)
        queue.add(20, ack(10), lambda _: told.append(2))

    queue.add(10, ack(5), append_again)
    queue.complete(10)
    assert told == [1]
    assert len(queue) == 1


def test_one_who_fails_when_he_is_told_keeps_nobody_else_from_hearing():
    queue = AckQueue()
    told: list[ErrorCode] = []

    def fail(_: AppendAck) -> None:
        raise RuntimeError("a mistake")

    def note(ack: AppendAck) -> None:
        told.append(ack.error)

    for offset, on_ack in enumerate((fail, note, fail, note)):
        queue.add(offset, ack(offset), on_ack)
    queue.complete(1)
    assert told == [ErrorCode.NONE]
    queue.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, "deleted")
    assert told == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
