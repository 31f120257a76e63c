"""Which messages a client gets that asked for a part of them (`sample_rate`), or has room for fewer by now."""

from collections.abc import Callable

Delivered = list[tuple[int, int, int]]
"""Runs of messages: first and last offset, and how often they were delivered."""


def sampled(runs: Delivered, samples: Callable[[], bool]) -> tuple[Delivered, Delivered]:
    """The messages of runs that are delivered, and those that are left out.

    >>> choices = iter([True, False, False, True])
    >>> sampled([(5, 7, 1), (9, 9, 2)], lambda: next(choices))
    ([(5, 5, 1), (9, 9, 2)], [(6, 7, 1)])
    """
    parts: tuple[Delivered, Delivered] = [], []
    for first, last, count in runs:
        for offset in range(first, last + 1):
            part = parts[0] if samples() else parts[1]
            if part and part[-1][1] + 1 == offset and part[-1][2] == count:
                part[-1] = part[-1][0], offset, count
            else:
                part.append((offset, offset, count))
    return parts


def first_of(runs: Delivered, count: int) -> tuple[Delivered, Delivered]:
    """So many messages of runs, and those that are left.

    >>> first_of([(5, 7, 1), (9, 9, 2)], 2)
    ([(5, 6, 1)], [(7, 7, 1), (9, 9, 2)])
    """
    parts: tuple[Delivered, Delivered] = [], []
    for first, last, attempts in runs:
        end = min(last + 1, first + count)
        count -= end - first
        if first < end:
            parts[0].append((first, end - 1, attempts))
        if end <= last:
            parts[1].append((end, last, attempts))
    return parts
