"""Names of NSQ topics and channels, and the names of the topics and groups that stand behind them.

A channel is the share group of its name. A topic is the topic of its name. `#ephemeral`, which no topic can have in its
name, becomes a prefix.
"""

import re
from typing import Final

NAME_LENGTH_MAX: Final = 64
EPHEMERAL: Final = "#ephemeral"
EPHEMERAL_PREFIX: Final = "nsq-ephemeral."
_NAME: Final = re.compile(r"[.a-zA-Z0-9_-]+(#ephemeral)?")


def is_valid_name(name: str) -> bool:
    """Whether a topic or a channel may have this name, which includes its suffix.

    >>> is_valid_name("clicks"), is_valid_name("clicks#ephemeral"), is_valid_name("bad$topic")
    (True, True, False)
    """
    return 1 <= len(name) <= NAME_LENGTH_MAX and _NAME.fullmatch(name) is not None


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may have this name: those of topics in the log cannot be dots only."""
    return is_valid_name(name) and name.removesuffix(EPHEMERAL) not in (".", "..") and not _is_reserved(name)


def is_ephemeral(name: str) -> bool:
    """Whether a topic or channel goes when its last reader goes."""
    return name.endswith(EPHEMERAL)


def topic_of(name: str) -> str:
    """The topic in the log of an NSQ topic.

    >>> topic_of("clicks"), topic_of("clicks#ephemeral")
    ('clicks', 'nsq-ephemeral.clicks')
    """
    return EPHEMERAL_PREFIX + name.removesuffix(EPHEMERAL) if is_ephemeral(name) else name


def nsq_topic_of(topic: str) -> str | None:
    """The NSQ name of a topic in the log; None where NSQ has no such name.

    >>> nsq_topic_of("nsq-ephemeral.clicks")
    'clicks#ephemeral'
    """
    name = topic
    if topic.startswith(EPHEMERAL_PREFIX):
        name = topic.removeprefix(EPHEMERAL_PREFIX) + EPHEMERAL
    return name if is_valid_name(name) else None


def _is_reserved(name: str) -> bool:
    return name.startswith(EPHEMERAL_PREFIX)
