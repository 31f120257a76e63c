"""Finds what a broker did with a history that it must not do. Pure: a history in, violations out.

What is unknown is given every benefit: a request without an answer may have been carried out or not, at any time; what
may be of one life of a topic or of the next is checked against both.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.model.error_code import ErrorCode
from ottla.simulation.anomaly import Violation
from races.check_exchanges import check_exchanges
from races.check_offsets import LogBounds
from races.check_process import check_process
from races.check_records import (
    check_compaction,
    check_contents,
    check_places,
    check_presence,
    sent_records,
)
from races.check_state import check_commits, check_settings
from races.history import Append, History, Life, Look, Outage, Read
from races.lives import Lives


@dataclass(slots=True)
class _Log:
    """What is about one partition in one life, and surely so but for what was `sent`."""

    sent: list[Append] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    losable: list[Append] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)


def check(history: History) -> list[Violation]:
    """Everything that is wrong, in the order of time."""
    lives = Lives(history.lives)
    found = [
        *check_exchanges(history),
        *check_presence(history, lives),
        *check_contents(history, lives),
        *_check_logs(history, lives),
        *check_commits(history, lives),
        *check_settings(history, lives),
        *check_process(history),
    ]
    return sorted(found, key=lambda each: each.at)


def _check_logs(history: History, lives: Lives) -> Iterator[Violation]:
    sent = sent_records(history)
    logs: dict[tuple[Life, int], _Log] = defaultdict(_Log)
    for append in history.appends:
        possible = lives.possible(append)
        for life in possible:
            if append.error == 0 or not append.is_answered or _may_have_been_appended(append, life):
                logs[life, append.partition].sent.append(append)
        if len(possible) == 1 and append.is_acknowledged:
            log = logs[possible[0], append.partition]
            (log.losable if _may_be_lost(append, history.outages) else log.appends).append(append)
    for read in history.reads:
        if read.is_answered and (only := lives.certain(read)) is not None:
            logs[only, read.partition].reads.append(read)
    for look in history.looks:
        if look.is_answered and (only := lives.certain(look)) is not None:
            logs[only, look.partition].looks.append(look)
    for (life, partition), log in logs.items():
        reads = [read for read in log.reads if read.error == 0]
        yield from check_places(log.appends, reads, life, sent)
        yield from check_compaction(log.appends, reads, life, partition)
        bounds = LogBounds(life, partition, log.sent, log.appends, log.losable, log.reads, log.looks, history.outages)
        yield from bounds.check()


def _may_have_been_appended(append: Append, life: Life) -> bool:
    """Whoever waits for an acknowledgement of records that are in the log is refused when the topic is deleted."""
    return append.error == ErrorCode.NOT_LEADER_OR_FOLLOWER and life.delete_asked_at <= append.answered_at


def _may_be_lost(append: Append, outages: list[Outage]) -> bool:
    """What is not acknowledged by all may go with a kill."""
    return append.acks != -1 and any(each.is_kill and each.ended_at >= append.asked_at for each in outages)
