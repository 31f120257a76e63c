"""Finds the name that somebody meant who wrote another.

A name is compared word by word. A word is recognised with one letter too many, too few, changed or swapped, or by its
first letters:

    retension.ms   cleanup.policies   maxMessageByte   ms.retention      the name that was written
    retention ms   cleanup policy     max message bytes   ms retention   its words, recognised
    retention.ms   cleanup.policy     max.message.bytes   retention.ms   the name that has these words

The work is bounded by the length of what was written, and is not done for each of the names.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_WORD: Final = re.compile(r"[a-z]+|[0-9]+")
_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LENGTH_MAX: Final = 100
"""Characters of a name that are looked at; no setting has as many."""
_PREFIX_LENGTH: Final = 4


class SimilarNames:
    """Immutable."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_text: dict[str, str] = {}
        self._by_words: dict[tuple[str, ...], str] = {}
        self._near: dict[str, str] = {}
        self._prefixes: dict[str, str | None] = {}
        for name in names:
            words = _words(name)
            self._by_text["".join(words)] = name
            self._by_words[tuple(sorted(words))] = name
            self._near.update((word, word) for word in words)
        for word in list(self._near):
            self._learn(word)

    def similar(self, name: str) -> str | None:
        """The name that was meant, as far as that can be told."""
        words = _words(name[:_LENGTH_MAX])
        found = self._by_text.get("".join(words))
        if found is not None:
            return found
        recognised = [self._recognised(word) for word in words]
        return self._by_text.get("".join(recognised)) or self._by_words.get(tuple(sorted(recognised)))

    def _learn(self, word: str) -> None:
        if len(word) > 2:
            for near in _with_one_left_out(word):
                self._near.setdefault(near, word)
        if len(word) >= _PREFIX_LENGTH:
            prefix = word[:_PREFIX_LENGTH]
            self._prefixes[prefix] = word if self._prefixes.get(prefix, word) == word else None

    def _recognised(self, word: str) -> str:
        """A known word near to it, else the word itself."""
        if len(word) <= 1:
            return word
        for near in _with_one_left_out(word):
            if near in self._near:
                return self._near[near]
        return self._prefixes.get(word[:_PREFIX_LENGTH]) or word


def _words(name: str) -> list[str]:
    return _WORD.findall(_BOUNDARY.sub(".", name).lower())


def _with_one_left_out(word: str) -> Iterator[str]:
    """The word, and what is left of it without one of its letters."""
    yield word
    for index in range(len(word)):
        yield word[:index] + word[index + 1 :]
