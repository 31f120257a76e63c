"""A line about a peer is found by its whole address."""

from tests.hostile.raw_peer import lines_about


def test_an_address_that_begins_or_ends_another_one_is_another():
    ours = "ottla: 127.0.0.7:4567 to 127.0.0.1:9092: the peer speaks HTTP"
    others = ["ottla: 127.0.0.7:45678 to 127.0.0.1:9092: x", "ottla: 127.0.0.77:4567 to x", "ottla: 1127.0.0.7:4567: x"]
    others.append("ottla: 5.127.0.0.7:4567: x")
    assert lines_about("127.0.0.7:4567", [*others, ours, f"{ours}:"]) == [ours, f"{ours}:"]
    assert lines_about("127.0.0.7:4567", ["at=127.0.0.7:4567", "(127.0.0.7:4567)"]) == [
        "at=127.0.0.7:4567",
        "(127.0.0.7:4567)",
    ]
