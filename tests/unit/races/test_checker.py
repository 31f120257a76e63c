"""The checker finds each fault that is planted in a sound history, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from pathlib import Path
from uuid import UUID

import pytest

from ottla.simulation.anomaly import Anomaly
from races import checker
from races.checker import check
from races.history import (
    Append,
    At,
    Commit,
    CommitSeen,
    CommitsWiped,
    ConnectionLog,
    End,
    Exchange,
    History,
    Life,
    Look,
    Outage,
    Read,
    Remains,
    SessionTurn,
    Setting,
    SettingSeen,
)
from workload.payload import Payload

FIRST, SECOND, KEPT = UUID(int=1), UUID(int=2), UUID(int=3)


def payloads(producer: str, *numbers: int) -> list[Payload]:
    return [Payload(producer, number) for number in numbers]


def placed(first: int, content: list[Payload]) -> list[tuple[int, Payload | None]]:
    return list(enumerate(content, first))


def append(at: float, producer: str, number: int, count: int, offset: int, **more: object) -> Append:
    told: dict[str, object] = {"topic": "orders", "partition": 0, "answered_at": at + 0.5, **more}
    return Append(asked_at=at, producer=producer, first_number=number, count=count, offset=offset, **told)  # type: ignore[arg-type]


def read(at: float, offset: int, content: list[Payload], high_watermark: int, **more: object) -> Read:
    told: dict[str, object] = {"topic": "orders", "partition": 0, "log_start": 0, **more}
    records = placed(offset, content)
    return Read(
        asked_at=at,
        answered_at=at + 0.5,
        fetch_offset=offset,
        records=records,
        end=offset + len(content) if content else -1,
        high_watermark=high_watermark,
        **told,  # type: ignore[arg-type]
    )


def look(at: float, kind: At, offset: int, topic: str = "orders") -> Look:
    return Look(topic, 0, at, at + 0.5, at=kind, offset=offset)


def sound() -> History:
    """Topic `orders` has two lives, from 1 to 20 and from 30 on; `kept` has one, and the broker is killed at 60."""
    first = Life("orders", 0, 1, 1, FIRST, 2, 18, 20)
    second = Life("orders", 1, 1, 30, SECOND, 31)
    kept = Life("kept", 2, 1, 1, KEPT, 2)
    connection = ConnectionLog(
        "raw-0",
        3,
        [Exchange(0, "FETCH", 4, 3, 0.5, 3.2, (0,)), Exchange(1, "PRODUCE", 9, 3.1, 30, 4, (0, 3))],
        [0, 1],
        end=End.OURS,
        ended_at=98,
    )
    killed = ConnectionLog("raw-1", 55, [Exchange(0, "FETCH", 4, 59)], end=End.BROKERS, ended_at=60.1)
    return History(
        lives=[first, second, kept],
        appends=[
            append(3, "a", 0, 3, 0),
            append(5, "a", 3, 2, 3),
            append(35, "b", 0, 4, 0),
            append(40, "b", 4, 2, 4, acks=1),
            append(42, "b", 6, 1, -1, error=10),
            append(44, "c", 0, 1, -1, answered_at=inf),
            append(35, "k", 0, 5, 0, topic="kept"),
        ],
        reads=[
            read(6, 0, payloads("a", 0, 1, 2, 3, 4), 5),
            read(36, 0, payloads("b", 0, 1, 2, 3), 4),
            read(46, 4, [*payloads("b", 4, 5), *payloads("c", 0)], 7, topic_id=SECOND),
            read(47, 9, [], -1, error=1, log_start=-1),
            read(48, 0, [], -1, topic_id=FIRST, error=100, log_start=-1),
            read(70, 1, payloads("k", 1, 2), 5, topic="kept"),
        ],
        looks=[
            look(6, At.LATEST, 5),
            look(37, At.EARLIEST, 0),
            look(41, At.LATEST, 6),
            look(47, At.TIME, 3),
            look(47, At.MAX_TIMESTAMP, 6),
            look(48, At.TIME, -1),
            look(70, At.LATEST, 5, "kept"),
        ],
        commits=[
            Commit("orders", 0, 8, 9, group="g", token="c0"),
            Commit("orders", 0, 36, 37, group="g", token="c1"),
            Commit("orders", 0, 38, 39, group="g", token="c2"),
            Commit("kept", 0, 10, 11, group="g", token="c3"),
        ],
        commits_seen=[
            CommitSeen("orders", 0, 10, 11, group="g", token="c0"),
            CommitSeen("orders", 0, 32, 33, group="g"),
            CommitSeen("orders", 0, 40, 41, group="g", token="c2"),
            CommitSeen("kept", 0, 12, 13, group="g", token="c3"),
            CommitSeen("kept", 0, 72, 73, group="g"),
        ],
        commits_wiped=[CommitsWiped("g", 71, 71.5, "kept")],
        settings=[
            Setting("orders", 0, 1, 2, name="max.message.bytes", value="1000"),
            Setting("orders", 0, 30, 31, name="max.message.bytes", value="1001"),
            Setting("orders", 0, 40, 41, name="max.message.bytes", value="1002"),
        ],
        settings_seen=[
            SettingSeen("orders", 0, 5, 6, name="max.message.bytes", value="1000"),
            SettingSeen("orders", 0, 35, 36, name="max.message.bytes", value="1001"),
            SettingSeen("orders", 0, 45, 46, name="max.message.bytes", value="1002"),
        ],
        connections=[connection, killed],
        session_turns=[SessionTurn("s", at, at + 0.5, 0.5, has_news=False) for at in range(60)],
        outages=[Outage(60, 62, is_kill=True)],
        remains=Remains(memory_mib=[40.0, 55.0]),
        log_lines=["ottla: the last shutdown was unclean: recovered 20 logs, 54122 bytes read in 83 ms"],
        ended_at=100,
    )


def test_a_sound_history_has_no_violations():
    assert check(sound()) == []


def leave_unanswered(history: History) -> None:
    del history.connections[0].received[1]


def answer_twice(history: History) -> None:
    history.connections[0].received.append(1)


def answer_out_of_order(history: History) -> None:
    history.connections[0].received.reverse()


def answer_in_another_version(history: History) -> None:
    history.connections[0].unreadable.append("#1 PRODUCE v9: bytes are left")


def close(history: History) -> None:
    history.connections[0].end = End.BROKERS


def answer_an_unknown_error(history: History) -> None:
    history.connections[0].exchanges[0].errors = (-1,)


def answer_an_error_of_another_api(history: History) -> None:
    history.connections[0].exchanges[0].errors = (36,)


def find_offsets_unstable_without_a_transaction(history: History) -> None:
    exchange = history.connections[0].exchanges[0]
    exchange.api, exchange.errors = "OFFSET_FETCH", (0, 88)


def change_a_byte(history: History) -> None:
    history.reads[0].records[2] = (2, None)


def invent_a_record(history: History) -> None:
    history.reads[2].records.append((7, Payload("nobody", 0)))


def show_a_record_elsewhere(history: History) -> None:
    history.reads[5].records = placed(1, payloads("b", 1, 2))


def show_records_of_the_earlier_topic(history: History) -> None:
    history.reads[1].records = placed(0, payloads("a", 0, 1, 2, 3))


def take_records_for_a_topic_by_its_earlier_id(history: History) -> None:
    history.appends[2].topic_id = FIRST


def append_to_no_topic(history: History) -> None:
    history.appends.append(append(25, "d", 0, 1, 0))


def answer_by_an_id_that_is_gone(history: History) -> None:
    history.reads[4].error = 0


def not_know_a_topic_that_is_there(history: History) -> None:
    history.reads[1].error = 3
    history.reads[1].records = []


def lead_no_partition_that_is_there(history: History) -> None:
    history.appends[2].error = 6


def lose_a_record_and_put_another_in_its_place(history: History) -> None:
    history.reads[5].records = placed(1, payloads("k", 1, 3))


def show_a_record_twice(history: History) -> None:
    history.reads[2].records.append((7, Payload("b", 4)))


def turn_records_around(history: History) -> None:
    history.appends[0].answered_at = inf
    history.reads[0].records = placed(0, payloads("a", 1, 0, 2, 3, 4))


def leave_out_an_offset(history: History) -> None:
    del history.reads[0].records[2]


def begin_behind_the_offset(history: History) -> None:
    del history.reads[0].records[0]


def compact_away_the_newest_record_of_a_key(history: History) -> None:
    history.lives[2].is_compacted = True
    del history.reads[5].records[1]


def forget_the_end_over_a_kill(history: History) -> None:
    history.reads[5].records = placed(1, payloads("k", 1))
    history.reads[5].high_watermark = 2


def list_an_end_before_an_append(history: History) -> None:
    history.looks[2].offset = 4


def end_where_the_earlier_topic_did(history: History) -> None:
    history.looks.append(look(32, At.LATEST, 5))


def append_behind_what_was_sent(history: History) -> None:
    history.appends[2].offset = 5


def start_again_from_the_beginning(history: History) -> None:
    history.lives[2].deletions[0] = 3
    history.looks.append(look(66, At.EARLIEST, 2, "kept"))


def start_behind_what_was_deleted(history: History) -> None:
    history.looks.append(look(71, At.EARLIEST, 2, "kept"))


def refuse_an_offset_in_the_log(history: History) -> None:
    history.reads[3].fetch_offset = 5


def refuse_the_end_of_the_log(history: History) -> None:
    history.reads[3].fetch_offset = 6


def list_a_time_behind_the_end(history: History) -> None:
    history.looks[3].offset = 9


def list_a_time_before_the_start(history: History) -> None:
    history.outages.clear()
    del history.connections[1]
    history.lives[2].deletions[0] = 3
    history.looks += [look(71, At.EARLIEST, 3, "kept"), look(75, At.TIME, 1, "kept")]


def find_no_newest_record(history: History) -> None:
    history.looks[4].offset = -1


def forget_a_commit(history: History) -> None:
    history.commits_seen[3].token = ""


def go_back_to_an_older_commit(history: History) -> None:
    history.commits_seen[2].token = "c1"


def keep_a_commit_for_the_next_topic(history: History) -> None:
    history.commits_seen[1].token = "c0"


def invent_a_commit(history: History) -> None:
    history.commits_seen[3].token = "c9"


def keep_a_setting_for_the_next_topic(history: History) -> None:
    history.settings_seen[1].value = "1000"


def invent_a_setting(history: History) -> None:
    history.settings_seen[1].value = "77"


def forget_a_setting(history: History) -> None:
    history.settings_seen[2].value = None


def go_back_to_an_older_setting(history: History) -> None:
    history.settings_seen[2].value = "1001"


def spin(history: History) -> None:
    for turn in history.session_turns[20:]:
        turn.answered_at = turn.asked_at + 0.01


def complain(history: History) -> None:
    history.log_lines.append("ottla: a metadata subscriber failed at offset 90")


def leave_a_directory(history: History) -> None:
    history.remains.directories.append("orders-0")


def leave_a_file_open(history: History) -> None:
    history.remains.open_files.append("/data/orders-0/00000000000000000000.log (deleted)")


def leave_a_connection(history: History) -> None:
    history.remains.sockets.append("CLOSE_WAIT with 127.0.0.1:40404, let go of there")


def grow(history: History) -> None:
    history.remains.memory_mib.append(400.0)


def stall(history: History) -> None:
    history.stalls.append("aiokafka-producer: 200 records are undecided after 40 s")


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (leave_unanswered, Anomaly.UNANSWERED),
        (answer_twice, Anomaly.OUT_OF_ORDER),
        (answer_out_of_order, Anomaly.OUT_OF_ORDER),
        (answer_in_another_version, Anomaly.UNREADABLE),
        (close, Anomaly.CLOSED),
        (answer_an_unknown_error, Anomaly.ERROR),
        (answer_an_error_of_another_api, Anomaly.ERROR),
        (find_offsets_unstable_without_a_transaction, Anomaly.ERROR),
        (change_a_byte, Anomaly.CHANGED),
        (invent_a_record, Anomaly.PHANTOM),
        (show_a_record_elsewhere, Anomaly.PHANTOM),
        (show_records_of_the_earlier_topic, Anomaly.INHERITED),
        (take_records_for_a_topic_by_its_earlier_id, Anomaly.GHOST),
        (append_to_no_topic, Anomaly.GHOST),
        (answer_by_an_id_that_is_gone, Anomaly.GHOST),
        (not_know_a_topic_that_is_there, Anomaly.VANISHED),
        (lead_no_partition_that_is_there, Anomaly.VANISHED),
        (lose_a_record_and_put_another_in_its_place, Anomaly.INCONSISTENT_OFFSET),
        (show_a_record_twice, Anomaly.DUPLICATE),
        (turn_records_around, Anomaly.REORDERED),
        (compact_away_the_newest_record_of_a_key, Anomaly.LOST),
        (leave_out_an_offset, Anomaly.GAP),
        (begin_behind_the_offset, Anomaly.GAP),
        (forget_the_end_over_a_kill, Anomaly.END_WENT_BACK),
        (list_an_end_before_an_append, Anomaly.END_WENT_BACK),
        (end_where_the_earlier_topic_did, Anomaly.END_TOO_FAR),
        (append_behind_what_was_sent, Anomaly.END_TOO_FAR),
        (start_again_from_the_beginning, Anomaly.START_WENT_BACK),
        (start_behind_what_was_deleted, Anomaly.START_TOO_FAR),
        (refuse_an_offset_in_the_log, Anomaly.OUT_OF_RANGE),
        (refuse_the_end_of_the_log, Anomaly.OUT_OF_RANGE),
        (list_a_time_behind_the_end, Anomaly.WRONG_OFFSET),
        (list_a_time_before_the_start, Anomaly.WRONG_OFFSET),
        (find_no_newest_record, Anomaly.WRONG_OFFSET),
        (forget_a_commit, Anomaly.COMMIT_LOST),
        (go_back_to_an_older_commit, Anomaly.COMMIT_LOST),
        (keep_a_commit_for_the_next_topic, Anomaly.INHERITED),
        (invent_a_commit, Anomaly.PHANTOM),
        (keep_a_setting_for_the_next_topic, Anomaly.INHERITED),
        (invent_a_setting, Anomaly.PHANTOM),
        (forget_a_setting, Anomaly.SETTING_LOST),
        (go_back_to_an_older_setting, Anomaly.SETTING_LOST),
        (spin, Anomaly.SPINS),
        (complain, Anomaly.LOG_LINE),
        (leave_a_directory, Anomaly.LEFT_BEHIND),
        (leave_a_file_open, Anomaly.LEFT_BEHIND),
        (leave_a_connection, Anomaly.LEFT_BEHIND),
        (grow, Anomaly.GREW),
        (stall, Anomaly.STALLED),
    ],
)
def test_each_planted_fault_is_found(plant: Callable[[History], None], kind: Anomaly):
    history = sound()
    plant(history)
    assert kind in {violation.anomaly for violation in check(history)}


def test_every_kind_of_fault_is_planted():
    planted = next(mark for mark in test_each_planted_fault_is_found.pytestmark if mark.name == "parametrize").args[1]
    sources = [path.read_text() for path in Path(checker.__file__).parent.glob("check*.py")]
    assert {kind.name for _, kind in planted} == set(re.findall(r"Anomaly\.([A-Z_]+)", "".join(sources)))


def test_what_was_sent_before_the_topic_was_there_has_no_order_to_keep():
    history = sound()
    history.appends[2].asked_at = 25
    history.appends[2].answered_at = inf
    history.reads[1].records = placed(0, payloads("b", 1, 0, 2, 3))
    assert check(history) == []


def test_a_producer_that_sends_again_has_no_order_to_keep_on_the_next_topic():
    history = sound()
    history.appends.insert(0, append(17, "b", 90, 1, -1, answered_at=inf))
    history.appends[3].answered_at = inf
    history.reads[1].records = placed(0, payloads("b", 1, 0, 2, 3))
    assert {violation.anomaly for violation in check(history)} == {Anomaly.REORDERED}
    for each in history.appends:
        each.is_retried = True
    assert check(history) == []


def test_what_was_acknowledged_by_one_may_go_with_a_kill():
    history = sound()
    history.appends.append(append(50, "k", 5, 2, 5, topic="kept", acks=1))
    assert check(history) == []
    history.appends[-1].acks = -1
    assert {violation.anomaly for violation in check(history)} == {Anomaly.END_WENT_BACK}


def test_a_library_that_took_a_new_epoch_may_have_sent_a_record_twice():
    history = sound()
    show_a_record_twice(history)
    where = [offset for offset, payload in history.reads[2].records if payload == Payload("b", 4)]
    history.reads[2].identities = dict.fromkeys(where, (7, 0))
    assert Anomaly.DUPLICATE in {violation.anomaly for violation in check(history)}
    history.reads[2].identities[where[-1]] = (7, 1)
    assert {violation.anomaly for violation in check(history)} == set()


def test_what_overlaps_a_deletion_may_be_of_either_topic():
    history = sound()
    history.appends.append(append(15, "late", 0, 1, 5, answered_at=33))
    history.reads.append(read(17, 5, payloads("late", 0), 6))
    assert check(history) == []


@pytest.mark.parametrize(("answered_at", "kinds"), [(19, set()), (17.5, {Anomaly.VANISHED, Anomaly.END_TOO_FAR})])
def test_what_a_deletion_refuses_may_be_in_the_log(answered_at: float, kinds: set[Anomaly]):
    history = sound()
    history.appends.append(append(17, "refused", 0, 3, -1, error=6, answered_at=answered_at))
    history.appends.append(append(17, "after", 0, 1, 8, answered_at=19.5))
    assert {each.anomaly for each in check(history)} == kinds


def test_offsets_are_unstable_while_their_coordinator_moves():
    history = sound()
    exchange = history.connections[0].exchanges[0]
    exchange.api, exchange.errors = "OFFSET_FETCH", (14, 88)
    assert check(history) == []


def test_commits_and_settings_go_while_their_topic_is_deleted():
    history = sound()
    history.lives[2].delete_asked_at = 12.5
    forget_a_commit(history)
    history.lives[1].delete_asked_at = 45.5
    forget_a_setting(history)
    assert check(history) == []


def test_an_older_record_of_a_key_may_be_compacted_away():
    history = sound()
    history.lives[2].is_compacted = True
    history.appends.append(append(50, "l", 2, 1, 5, topic="kept"))
    history.looks[-1].offset = 6
    history.reads[5].high_watermark = 6
    del history.reads[5].records[1]
    assert check(history) == []


def test_a_refused_offset_is_none_of_a_log_whose_records_may_go():
    history = sound()
    refuse_an_offset_in_the_log(history)
    history.lives[1].takes_records_away = True
    assert check(history) == []


def test_a_connection_that_ends_with_its_broker_is_no_violation_but_one_that_ends_later_is():
    history = sound()
    history.connections[1].ended_at = 70
    assert [violation.anomaly for violation in check(history)] == [Anomaly.CLOSED]


def test_a_violation_says_what_and_where():
    history = sound()
    change_a_byte(history)
    assert str(check(history)[0]) == "changed: orders-0 offset 2 (not what was sent)"
