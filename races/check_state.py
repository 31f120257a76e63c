"""Committed offsets and settings belong to one life of a topic, and stay as long as it does."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.simulation.anomaly import Anomaly, Violation
from races.history import Commit, CommitSeen, CommitsWiped, History, Seen, Setting
from races.lives import Lives, where


def check_commits(history: History, lives: Lives) -> Iterator[Violation]:
    """What groups were told of their commits."""
    by_token = {commit.token: commit for commit in history.commits}
    by_place: dict[tuple[str, str, int], list[Commit]] = defaultdict(list)
    for each in history.commits:
        if each.error == 0 and each.is_answered:
            by_place[each.group, each.topic, each.partition].append(each)
    for seen in history.commits_seen:
        if seen.error or not seen.is_answered:
            continue
        name = f"{seen.group}, {where(seen)}: {seen.token or 'none'}"
        told = by_token.get(seen.token)
        if seen.token:
            if told is None or (told.group, told.topic, told.partition) != _place(seen):
                yield Violation(Anomaly.PHANTOM, name, seen.asked_at)
                continue
            if lives.knows(seen.topic) and not _share_a_life(told, seen, lives):
                yield Violation(Anomaly.INHERITED, name, seen.asked_at)
                continue
        lost = _newer(seen, told, by_place[_place(seen)], history.commits_wiped, lives)
        if lost is not None:
            yield Violation(Anomaly.COMMIT_LOST, f"{name}, {lost.token} was acknowledged before", seen.asked_at)


def _place(seen: CommitSeen) -> tuple[str, str, int]:
    return seen.group, seen.topic, seen.partition


def _share_a_life(made: Seen, seen: Seen, lives: Lives) -> bool:
    of_made = lives.possible(made)
    return any(life in of_made for life in lives.possible(seen))


def _newer(
    seen: CommitSeen, told: Commit | None, commits: list[Commit], wiped: list[CommitsWiped], lives: Lives
) -> Commit | None:
    """A commit of the same life that should have been told instead."""
    life = lives.certain(seen)
    if life is None or life.delete_asked_at <= seen.answered_at:
        return None
    for commit in commits:
        if commit.answered_at >= seen.asked_at or lives.certain(commit) is not life:
            continue
        if told is not None and told.answered_at >= commit.asked_at:
            continue
        if not any(_touches(each, commit, seen) for each in wiped):
            return commit
    return None


def _touches(wiped: CommitsWiped, commit: Commit, seen: CommitSeen) -> bool:
    return (
        wiped.group == commit.group
        and wiped.topic in {None, commit.topic}
        and wiped.answered_at >= commit.asked_at
        and wiped.asked_at <= seen.answered_at
    )


def check_settings(history: History, lives: Lives) -> Iterator[Violation]:
    """What DescribeConfigs said of the settings that were made."""
    made: dict[tuple[str, str], list[Setting]] = defaultdict(list)
    for setting in history.settings:
        made[setting.topic, setting.name].append(setting)
    for seen in history.settings_seen:
        if seen.error or not seen.is_answered or not lives.knows(seen.topic):
            continue
        name = f"{seen.topic}: {seen.name}={seen.value}"
        candidates = made[seen.topic, seen.name]
        same = [each for each in candidates if each.value == seen.value]
        if seen.value is not None and not same:
            yield Violation(Anomaly.PHANTOM, name, seen.asked_at)
            continue
        if seen.value is not None and not any(_share_a_life(each, seen, lives) for each in same):
            yield Violation(Anomaly.INHERITED, name, seen.asked_at)
            continue
        life = lives.certain(seen)
        for each in candidates:
            is_newer = not same or max(other.answered_at for other in same) < each.asked_at
            if (
                life is not None
                and life.delete_asked_at > seen.answered_at
                and each.error == 0
                and each.answered_at < seen.asked_at
                and is_newer
                and lives.certain(each) is life
            ):
                yield Violation(Anomaly.SETTING_LOST, f"{name}, {each.value} was acknowledged before", seen.asked_at)
                break
