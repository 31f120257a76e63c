"""Histograms as the kernel gives them, and what they say."""

import pytest

from ottla.storage.log_io_trace import Histogram, histograms

BOUNDS = (64, 128, 256)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 64), (0.5, 64), (0.51, 128), (0.75, 128), (0.76, float("inf")), (1.0, float("inf"))]
)
def test_a_quantile_is_the_upper_bound_of_its_bucket(share: float, expected: float):
    assert Histogram(BOUNDS, (2, 1, 0, 1), 1_000).quantile(share) == expected


def test_what_came_between_two_readings_is_their_difference():
    (earlier,) = histograms([("sync_us", ([64, 128, 256], [1, 0, 0, 0], 10))]).values()
    (later,) = histograms([("sync_us", ([64, 128, 256], [1, 2, 0, 1], 1_210))]).values()
    part = later.since(earlier)
    assert (part.counts, part.count, part.mean) == ((0, 2, 0, 1), 3, 400.0)


def test_nothing_has_no_mean():
    assert Histogram(BOUNDS, (0, 0, 0, 0), 0).mean == 0.0
