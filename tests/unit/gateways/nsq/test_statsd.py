"""What statsd is told, line by line."""

from typing import Any

from ottla.gateways.nsq.statsd import StatsdCounts, StatsdOptions, packets


def topic(name: str, count: int, size: int, channel_count: int | None = None) -> dict[str, Any]:
    """The statistics of a topic, with a channel if it has any."""
    channel = {
        "channel_name": "archive",
        "depth": 3,
        "backend_depth": 3,
        "in_flight_count": 1,
        "deferred_count": 2,
        "message_count": channel_count,
        "requeue_count": 5,
        "timeout_count": 6,
        "client_count": 7,
    }
    channels = [] if channel_count is None else [channel]
    own = {"topic_name": name, "message_count": count, "message_bytes": size, "depth": 8, "backend_depth": 8}
    return {**own, "channels": channels}


def test_counters_tell_what_is_new_and_gauges_what_is() -> None:
    counts = StatsdCounts()
    assert counts.lines([], frozenset()) == []
    lines = counts.lines([topic("clicks", 10, 1000, 4)], frozenset({"clicks"}))
    assert lines == [
        "topic.clicks.message_count:10|c",
        "topic.clicks.message_bytes:1000|c",
        "topic.clicks.depth:8|g",
        "topic.clicks.backend_depth:8|g",
        "topic.clicks.channel.archive.message_count:4|c",
        "topic.clicks.channel.archive.requeue_count:5|c",
        "topic.clicks.channel.archive.timeout_count:6|c",
        "topic.clicks.channel.archive.depth:3|g",
        "topic.clicks.channel.archive.backend_depth:3|g",
        "topic.clicks.channel.archive.in_flight_count:1|g",
        "topic.clicks.channel.archive.deferred_count:2|g",
        "topic.clicks.channel.archive.clients:7|g",
    ]
    later = counts.lines([topic("clicks", 12, 900, 5)], frozenset({"clicks"}))
    assert later[:2] == ["topic.clicks.message_count:2|c", "topic.clicks.message_bytes:0|c"], "retention took some"
    assert later[4:6] == [
        "topic.clicks.channel.archive.message_count:1|c",
        "topic.clicks.channel.archive.requeue_count:0|c",
    ]


def test_what_was_there_before_counts_for_nothing_and_what_is_made_anew_counts() -> None:
    counts = StatsdCounts()
    assert counts.lines([topic("old", 10, 10)], frozenset({"old", "elsewhere"}))[0] == "topic.old.message_count:0|c"
    seen = counts.lines(
        [topic("elsewhere", 5, 5), topic("new", 6, 6), topic("old", 3, 3)], frozenset({"old", "elsewhere", "new"})
    )
    assert [each for each in seen if "message_count" in each] == [
        "topic.elsewhere.message_count:0|c",
        "topic.new.message_count:6|c",
        "topic.old.message_count:3|c",
    ]


def test_packets_are_no_larger_than_they_may_be() -> None:
    lines = [b"a" * size for size in (5, 5, 5, 600, 5, 507, 1)]
    found = packets(lines, 508)
    assert [len(each) for each in found] == [15, 600, 5, 508]
    assert b"".join(found) == b"".join(lines)
    assert packets([], 508) == []


def test_the_prefix_names_the_server_as_nsqd_does() -> None:
    assert StatsdOptions().prefix_at("host.example", 4151) == "nsq.host_example_4151."
    assert StatsdOptions(prefix="a.").prefix_at("h", 1) == "a."
    assert StatsdOptions(prefix="").prefix_at("h", 1) == ""
