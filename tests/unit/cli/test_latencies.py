from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.latencies import Latencies

MS = 1_000_000


def test_nothing_measured_is_said_so():
    assert set(Latencies().summary().values()) == {None}


def test_percentiles_are_by_nearest_rank():
    latencies = Latencies()
    for ms in range(1_000, 0, -1):
        latencies.add(ms * MS)
    assert latencies.summary() == {"p50": 500.0, "p95": 950.0, "p99": 990.0, "p99_9": 999.0, "max": 1000.0}


def test_one_measurement_is_all_of_them():
    latencies = Latencies()
    latencies.add(7 * MS)
    assert set(latencies.summary().values()) == {7.0}


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=500))
def test_samples_are_bounded_and_the_longest_is_exact(measured):
    latencies = Latencies(samples_max=16)
    for each in measured:
        latencies.add(each)
    summary = latencies.summary()
    assert len(latencies._samples) <= 16
    assert summary["max"] == round(max(measured) / MS, 3)
    ordered = [each for each in summary.values() if each is not None]
    assert ordered == sorted(ordered)
