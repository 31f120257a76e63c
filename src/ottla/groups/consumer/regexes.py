"""Subscriptions by expression: which topics match, and when that is looked up again (KIP-848).

A new expression is looked up when its first member brings it. After that all expressions of a group are looked up
together, when there are other topics than the last time and every ten minutes, but not more often than every ten
seconds: topics may come by the thousand.

The expressions are matched in the kernel, in time that grows with the length of the names alone, and each has bounds on
its size (`ottla.native.TopicPattern`).
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from ottla.groups.consumer.consumer_group import MatchedTopics
from ottla.groups.consumer.group_update import SLICE_INTERVAL_MS, GroupUpdate
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.consumer_config import MATCHED_BYTES_MAX, REGEXES_PER_GROUP_MAX
from ottla.groups.step import RegexTimer
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import TopicPattern

logger = logging.getLogger(__name__)

REGEX_BYTES_MAX: Final = 4_096
"""A longer expression is refused: it stands in the key of a record, and each time a member asks for it."""

REFRESH_MS_MIN: Final = 10_000
REFRESH_MS_MAX: Final = 600_000
"""How often expressions are looked up again: at most, and at least while members send heartbeats."""

NAMES_AT_ONCE: Final = 20_000
"""So many names are matched in one turn of the loop, but one expression at least: about 2 ms."""

PATTERNS_KEPT: Final = 64
"""Compiled expressions that are kept; each takes up to `native` allows, 256 KiB."""

MayDescribe = Callable[[str], bool]


class RegexRefresh:
    """The expressions of a group that are being looked up, for the topics there were when it began."""

    __slots__ = ("found", "image", "may_describe", "names", "regexes")

    def __init__(self, regexes: list[str], image: MetadataImage, may_describe: MayDescribe) -> None:
        self.regexes = regexes
        self.image = image
        self.names = list(image.topics_by_name)
        self.may_describe = may_describe
        self.found: dict[str, frozenset[str]] = {}


class RegexCheck:
    """When the expressions of a group were last looked up, and against which topics."""

    __slots__ = ("at_ms", "topics")

    def __init__(self, at_ms: int, topics: object) -> None:
        self.at_ms = at_ms
        self.topics = topics


@lru_cache(maxsize=PATTERNS_KEPT)
def _pattern(regex: str) -> TopicPattern:
    """The compiled expression. Raises ValueError."""
    return TopicPattern(regex)


def check_regex(regex: str) -> None:
    """Raises ApiError INVALID_REGULAR_EXPRESSION for what is none, or too large."""
    if len(regex.encode()) > REGEX_BYTES_MAX:
        message = f"SubscribedTopicRegex is longer than {REGEX_BYTES_MAX} bytes."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
    try:
        _pattern(regex)
    except ValueError as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error


def matching(regex: str, names: list[str], may_describe: MayDescribe) -> frozenset[str]:
    """The names that match as a whole, of those that whoever asks may know of.

    Raises ApiError INVALID_REGULAR_EXPRESSION when they do not fit a record.
    """
    found = frozenset(name for name in _pattern(regex).matching(names) if may_describe(name))
    if sum(map(len, found)) + 2 * len(found) > MATCHED_BYTES_MAX:
        message = f"SubscribedTopicRegex `{regex}` matches {len(found)} topics; their names take more than 900 kB."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
    return found


def update_regexes(
    update: GroupUpdate, before: ConsumerMember, member: ConsumerMember, may_describe: MayDescribe
) -> bool:
    """A member sent a heartbeat: look up what it brings, and what is due. True when a new epoch has to begin.

    Raises ApiError INVALID_REGULAR_EXPRESSION.
    """
    must_grow = before.regex != member.regex
    if must_grow:
        forget_regexes(update, [before.regex])
        if member.regex is not None and member.regex not in update.matched:
            check_regex(member.regex)
            if len(update.matched) >= REGEXES_PER_GROUP_MAX:
                message = f"The group has {REGEXES_PER_GROUP_MAX} different regular expressions, it takes no more."
                raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
            if not update.matched:
                update.group.pending[RegexCheck] = RegexCheck(update.step.now_ms, update.image.topics_by_name)
            _set(update, member.regex, matching(member.regex, list(update.image.topics_by_name), may_describe))
    if update.matched and RegexRefresh not in update.group.pending and _is_due(update):
        update.group.pending[RegexCheck] = RegexCheck(update.step.now_ms, update.image.topics_by_name)
        must_grow |= go_on(update, RegexRefresh(list(update.matched), update.image, may_describe))
    return must_grow


def forget_regexes(update: GroupUpdate, regexes: list[str | None]) -> None:
    """Members do not have these any longer: remove what nobody has now."""
    gone = {regex for regex in regexes if regex is not None and regex in update.matched}
    if gone:
        for regex in sorted(gone - {member.regex for member in update.members.values()}):
            update.set_match(regex, None)


def go_on(update: GroupUpdate, refresh: RegexRefresh) -> bool:
    """Look up some expressions. True when all are, and a new epoch has to begin."""
    update.group.pending.pop(RegexRefresh, None)
    left = NAMES_AT_ONCE
    while refresh.regexes and left > 0:
        regex = refresh.regexes.pop()
        try:
            refresh.found[regex] = matching(regex, refresh.names, refresh.may_describe)
        except ApiError as error:
            logger.warning(
                "group %s: could not resolve its regular expressions, its topics do not change: %s",
                update.group.group_id,
                error,
            )
        left -= len(refresh.names) + 1
    if refresh.regexes:
        update.group.pending[RegexRefresh] = refresh
        update.step.outcome.set_timer(RegexTimer(update.group.group_id), SLICE_INTERVAL_MS)
        return False
    must_grow = False
    for regex, topics in sorted(refresh.found.items()):
        known = update.matched.get(regex)
        if known is not None and known.topics != topics:
            _set(update, regex, topics)
            must_grow = True
    return must_grow


def _set(update: GroupUpdate, regex: str, topics: frozenset[str]) -> None:
    update.set_match(regex, MatchedTopics(topics, update.image.end_offset, update.step.now_ms))


def _is_due(update: GroupUpdate) -> bool:
    checked = update.group.pending.get(RegexCheck)
    if not isinstance(checked, RegexCheck):
        # The first time since it was loaded: its records say when, topics may have come since.
        return not _is_within(REFRESH_MS_MIN, update.group.regexes_matched_at_ms, update.step.now_ms)
    if _is_within(REFRESH_MS_MIN, checked.at_ms, update.step.now_ms):
        return False
    is_old = not _is_within(REFRESH_MS_MAX, checked.at_ms, update.step.now_ms)
    return checked.topics is not update.image.topics_by_name or is_old


def _is_within(span_ms: int, at_ms: int, now_ms: int) -> bool:
    """Whether something was so lately. What was in the future was before a clock went back, nobody knows how long."""
    return 0 <= now_ms - at_ms <= span_ms
