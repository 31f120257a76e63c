import pytest

from ottla.metadata.controller import config_alteration
from ottla.metadata.controller.config_alteration import (
    Alteration,
    AlterOperation,
    ResourceAlteration,
    decide_config_alteration,
)
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import ALL_BROKERS, ConfigResource, ConfigResourceType, topic_resource
from ottla.metadata.records import BrokerRegisteredRecord, ConfigRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from tests.unit.metadata.images import image_of, topic_record

SET, DELETE, APPEND, SUBTRACT = AlterOperation
TOPIC = topic_resource("a")
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")
IMAGE = image_of(topic_record("a", 1), ConfigRecord(2, "a", "retention.ms", "5"))


def decide(resource, *alterations, image=IMAGE, broker_settings=None):
    request = ResourceAlteration(resource, [Alteration(*each) for each in alterations])
    return decide_config_alteration(image, [request], broker_settings or {})


def after(resource, *alterations, image=IMAGE, broker_settings=None):
    decision = decide(resource, *alterations, image=image, broker_settings=broker_settings)
    assert decision.result == {resource: None}
    return apply_records(image, decision.records)[0].config(resource)


def refusal(resource, *alterations):
    decision = decide(resource, *alterations)
    assert decision.records == ()
    outcome = decision.result[resource]
    assert isinstance(outcome, ApiError)
    return outcome


def test_settings_are_set_and_deleted():
    assert after(TOPIC, ("segment.ms", SET, "7"), ("retention.ms", DELETE, None)) == {"segment.ms": "7"}


def test_a_setting_that_is_not_set_can_be_deleted():
    assert after(TOPIC, ("segment.ms", DELETE, None)) == {"retention.ms": "5"}
    assert decide(TOPIC, ("segment.ms", DELETE, None)).records == ()


def test_a_value_that_holds_already_makes_no_record():
    assert decide(TOPIC, ("retention.ms", SET, "5")).records == ()


def test_a_list_grows_from_what_holds_now():
    assert after(TOPIC, ("cleanup.policy", APPEND, "compact"))["cleanup.policy"] == "delete,compact"
    on_broker = {"log.cleanup.policy": "compact"}
    assert (
        after(TOPIC, ("cleanup.policy", APPEND, "delete"), broker_settings=on_broker)["cleanup.policy"]
        == "compact,delete"
    )
    assert after(TOPIC, ("cleanup.policy", APPEND, "delete"))["cleanup.policy"] == "delete"


def test_a_list_shrinks():
    image = image_of(topic_record("a", 1), ConfigRecord(2, "a", "cleanup.policy", "compact,delete"))
    assert after(TOPIC, ("cleanup.policy", SUBTRACT, "delete"), image=image) == {"cleanup.policy": "compact"}
    assert after(TOPIC, ("cleanup.policy", SUBTRACT, "compact,delete"), image=image) == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("alterations", "code"),
    [
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "purge")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such", DELETE, None)], ErrorCode.INVALID_CONFIG),
        ([("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
        ([("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_of_a_topic_is_refused_by_name(alterations, code):
    refused = refusal(TOPIC, *alterations)
    assert refused.code == code
    assert alterations[0][0] in refused.message


def test_one_bad_change_keeps_the_others_of_its_resource_from_happening():
    refusal(TOPIC, ("segment.ms", SET, "7"), ("retention.ms", SET, "x"))


def test_settings_that_do_nothing_may_be_set_to_their_default_and_deleted():
    assert decide(TOPIC, ("remote.storage.enable", SET, "false")).result == {TOPIC: None}
    assert decide(TOPIC, ("flush.ms", DELETE, None)).result == {TOPIC: None}


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (topic_resource("x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_resource("bad name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ConfigResource(ConfigResourceType.BROKER, "9"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ConfigResource(ConfigResourceType.BROKER, "one"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ConfigResourceType.CLIENT_METRICS, ""), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ConfigResourceType.BROKER_LOGGER, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_without_settings_is_refused(resource, code):
    assert refusal(resource, ("retention.ms", SET, "1")).code == code


GROUP = ConfigResource(ConfigResourceType.GROUP, "g")
METRICS = ConfigResource(ConfigResourceType.CLIENT_METRICS, "s")


@pytest.mark.parametrize("resource", [GROUP, METRICS])
def test_a_setting_that_a_group_or_a_subscription_does_not_have_is_refused_by_name(resource):
    refused = refusal(resource, ("retention.ms", SET, "1"), ("no.such", DELETE, None))
    assert refused.code == ErrorCode.INVALID_CONFIG
    assert "config name: retention.ms" in refused.message
    assert "config name: no.such" in refused.message


def test_what_a_later_release_set_on_a_group_can_be_deleted():
    image = image_of(ConfigRecord(*GROUP, "later.setting", "1"))
    assert after(GROUP, ("later.setting", DELETE, None), image=image) == {}


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        (
            "consumer.session.timeout.ms",
            "44999",
            "greater than or equal to group.consumer.min.session.timeout.ms, which is 45000",
        ),
        (
            "consumer.session.timeout.ms",
            "60001",
            "less than or equal to group.consumer.max.session.timeout.ms, which is 60000",
        ),
        ("consumer.assignment.interval.ms", "15001", "less than or equal to group.consumer.max.assignment.interval.ms"),
        ("streams.num.standby.replicas", "3", "less than or equal to group.streams.max.standby.replicas"),
        ("share.delivery.count.limit", "1", "greater than or equal to group.share.min.delivery.count.limit"),
        ("share.isolation.level", "none", "one of: read_committed, read_uncommitted"),
        ("share.auto.offset.reset", "by_duration:1h", "by_duration:DURATION"),
        ("consumer.session.timeout.ms", "long", "a whole number"),
    ],
)
def test_what_the_broker_does_not_allow_a_group_is_refused(name, value, what):
    refused = refusal(GROUP, (name, SET, value))
    assert refused.code == ErrorCode.INVALID_CONFIG
    assert what in refused.message


def test_the_bounds_of_groups_are_the_ones_the_broker_was_started_with():
    bounds = {"group.consumer.max.session.timeout.ms": "100000"}
    assert after(GROUP, ("consumer.session.timeout.ms", SET, "100000"), broker_settings=bounds)


def test_a_heartbeat_comes_before_the_session_is_over():
    bounds = {"group.consumer.max.heartbeat.interval.ms": "100000"}
    decision = decide(GROUP, ("consumer.heartbeat.interval.ms", SET, "45000"), broker_settings=bounds)
    assert "consumer.session.timeout.ms=45000 must be above" in decision.result[GROUP].message


def test_settings_of_a_group_that_is_not_there_are_kept_for_it():
    assert after(GROUP, ("share.auto.offset.reset", SET, "by_duration:PT1H")) == {
        "share.auto.offset.reset": "by_duration:PT1H"
    }


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("interval.ms", "99", "at least 100"),
        ("interval.ms", "3600001", "at most 3600000"),
        ("match", "client_id", "must be SELECTOR=PATTERN"),
        ("match", "color=red", "must be SELECTOR=PATTERN"),
        ("match", "client_id=(", "regular expressions"),
        ("match", "client_id=" + "x" * 1001, "at most 1000 characters"),
    ],
)
def test_a_subscription_that_cannot_be_meant_is_refused(name, value, what):
    refused = refusal(METRICS, (name, SET, value))
    assert refused.code == ErrorCode.INVALID_CONFIG
    assert what in refused.message


def test_names_with_settings_are_bounded(monkeypatch):
    monkeypatch.setitem(config_alteration.NAMES_MAX, ConfigResourceType.GROUP, 2)
    alteration = [Alteration("share.isolation.level", SET, "read_committed")]
    groups = [ConfigResource(ConfigResourceType.GROUP, name) for name in "abc"]
    decision = decide_config_alteration(IMAGE, [ResourceAlteration(each, alteration) for each in groups], {})
    assert [decision.result[each] for each in groups[:2]] == [None, None]
    assert decision.result[groups[2]].code == ErrorCode.POLICY_VIOLATION
    image, _ = apply_records(IMAGE, decision.records)
    assert after(groups[0], ("share.isolation.level", SET, "read_uncommitted"), image=image)
    assert after(groups[0], ("share.isolation.level", DELETE, None), image=image) == {}
    long = ConfigResource(ConfigResourceType.GROUP, "g" * 1025)
    assert refusal(long, ("share.isolation.level", SET, "read_committed")).code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS])
def test_defaults_of_topics_can_be_changed_while_brokers_run(resource):
    assert after(resource, ("log.retention.ms", SET, "9")) == {"log.retention.ms": "9"}


def test_what_a_broker_reads_only_at_its_start_is_refused():
    refused = refusal(BROKER, ("num.partitions", SET, "3"))
    assert refused.code == ErrorCode.INVALID_CONFIG
    assert "Cannot update num.partitions dynamically, it is read-only" in refused.message
    assert refusal(BROKER, ("no.such", SET, "3")).code == ErrorCode.INVALID_CONFIG


def test_a_resource_named_twice_is_refused_and_others_are_not():
    requests = [
        ResourceAlteration(TOPIC, [Alteration("retention.ms", SET, "1")]),
        ResourceAlteration(ALL_BROKERS, [Alteration("log.retention.ms", SET, "1")]),
        ResourceAlteration(TOPIC, [Alteration("retention.ms", SET, "2")]),
    ]
    decision = decide_config_alteration(IMAGE, requests, {})
    assert isinstance(decision.result[TOPIC], ApiError)
    assert decision.result[ALL_BROKERS] is None
    assert len(decision.records) == 1


def test_replacing_takes_back_whatever_is_not_named():
    image = image_of(
        topic_record("a", 1), ConfigRecord(2, "a", "segment.ms", "6"), ConfigRecord(2, "a", "retention.ms", "5")
    )
    request = ResourceAlteration(TOPIC, [Alteration("segment.ms", SET, "7")], replaces_all=True)
    decision = decide_config_alteration(image, [request], {})
    assert {record.key: record.value for record in decision.records} == {"segment.ms": "7", "retention.ms": None}


def test_all_complaints_about_a_resource_are_made_together():
    refused = refusal(
        TOPIC,
        ("retention.ms", SET, "x"),
        ("no.such", SET, "1"),
        ("remote.storage.enable", SET, "true"),
        ("other", SET, ""),
    )
    assert refused.message == (
        "Invalid value x for configuration retention.ms: Not a number of type LONG; it must be a whole number of at "
        "least -1; "
        "Unknown topic config name: no.such: take it out, or find the right name in docs/settings.md; "
        "Invalid value true for configuration remote.storage.enable: it must be false: Tiered Storage functionality is "
        "disabled in the broker; "
        "Unknown topic config name: other: take it out, or find the right name in docs/settings.md"
    )


@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS])
def test_limits_on_connections_can_be_changed_while_brokers_run(resource):
    wanted = {
        "max.connections": "7",
        "max.connections.per.ip": "0",
        "max.connections.per.ip.overrides": "127.0.0.1:5,::1:7",
    }
    assert after(resource, *((name, SET, value) for name, value in wanted.items())) == wanted


@pytest.mark.parametrize(
    ("alterations", "said"),
    [
        ([("max.connections", SET, "0")], "Invalid value 0 for configuration max.connections: it must be at least 1"),
        ([("max.connections.per.ip", SET, "0")], "name who may in max.connections.per.ip.overrides"),
        ([("max.connections.per.ip.overrides", SET, "localhost:5")], "with an IP address, not 'localhost:5'"),
        ([("producer.id.expiration.ms", SET, "soon")], "soon for configuration producer.id.expiration.ms"),
    ],
)
def test_a_setting_of_a_broker_that_cannot_be_is_refused_by_name(alterations, said):
    refused = refusal(BROKER, *alterations)
    assert refused.code == ErrorCode.INVALID_CONFIG
    assert said in refused.message


def test_what_holds_together_is_checked_over_all_brokers_and_the_static_settings():
    image = image_of(ConfigRecord(4, "", "max.connections.per.ip.overrides", "::1:7"))
    assert after(BROKER, ("max.connections.per.ip", SET, "0"), image=image) == {"max.connections.per.ip": "0"}
    static = {"max.connections.per.ip.overrides": "::1:7"}
    assert after(BROKER, ("max.connections.per.ip", SET, "0"), broker_settings=static)


def test_a_setting_that_a_later_release_left_can_be_taken_back():
    image = image_of(ConfigRecord(4, "1", "no.such", "1"))
    assert after(BROKER, ("no.such", DELETE, None), image=image) == {}


def test_what_one_broker_sets_is_not_left_without_what_it_needs_of_all():
    image = image_of(
        ConfigRecord(4, "", "max.connections.per.ip.overrides", "::1:7"),
        ConfigRecord(4, "1", "max.connections.per.ip", "0"),
    )
    decision = decide(ALL_BROKERS, ("max.connections.per.ip.overrides", DELETE, None), image=image)
    refused = decision.result[ALL_BROKERS]
    assert isinstance(refused, ApiError)
    assert "max.connections.per.ip=0 lets nobody connect" in refused.message
    assert decision.records == ()


def test_two_changes_of_one_request_are_checked_together():
    image = image_of(ConfigRecord(4, "", "max.connections.per.ip.overrides", "::1:7"))
    requests = [
        ResourceAlteration(ALL_BROKERS, [Alteration("max.connections.per.ip.overrides", DELETE, None)]),
        ResourceAlteration(BROKER, [Alteration("max.connections.per.ip", SET, "0")]),
    ]
    decision = decide_config_alteration(image, requests, {})
    assert decision.result[ALL_BROKERS] is None
    assert isinstance(decision.result[BROKER], ApiError)
    assert len(decision.records) == 1


@pytest.mark.parametrize("name", ["alter.log.dirs.replication.quota.window.num", "remote.log.manager.thread.pool.size"])
def test_a_setting_of_kafkas_that_cannot_be_set_here_can_be_taken_back(name):
    """Kafka's tools clear the throttles of a reassignment, whether or not there were any."""
    assert decide(BROKER, (name, DELETE, None)).result == {BROKER: None}
    assert refusal(BROKER, (name, SET, "1")).code == ErrorCode.INVALID_CONFIG
    assert refusal(BROKER, ("no.such", DELETE, None)).code == ErrorCode.INVALID_CONFIG


def test_what_another_broker_was_started_with_is_not_taken_from_this_one():
    image = image_of(*(BrokerRegisteredRecord(each, 1, None, 9092, None) for each in (1, 2)))
    started_with = {"listeners": "PLAINTEXT://:9092"}
    request = ResourceAlteration(
        ConfigResource(ConfigResourceType.BROKER, "2"), [Alteration("listeners", SET, "PLAINTEXT://:9093,INSIDE://:9")]
    )

    def decided_by(own_id):
        return decide_config_alteration(image, [request], started_with, own_id)

    assert decided_by(1).result == {request.resource: None}
    assert len(decided_by(1).records) == 1
    refused = decided_by(2).result[request.resource]
    assert isinstance(refused, ApiError)
    assert "leaves out PLAINTEXT://:9092" in refused.message
    nonsense = ResourceAlteration(request.resource, [Alteration("max.connections", SET, "many")])
    outcome = decide_config_alteration(image, [nonsense], started_with, 1).result[request.resource]
    assert isinstance(outcome, ApiError)


def test_what_another_broker_sets_does_not_keep_a_setting_of_all_from_being_changed():
    image = image_of(ConfigRecord(ConfigResourceType.BROKER, "2", "listeners", "NOWHERE://:1"))
    request = ResourceAlteration(ALL_BROKERS, [Alteration("log.retention.bytes", SET, "7")])
    assert decide_config_alteration(image, [request], {}, 1).result == {ALL_BROKERS: None}
    assert isinstance(decide_config_alteration(image, [request], {}, 2).result[ALL_BROKERS], ApiError)


def test_how_many_replicas_must_be_in_sync_is_one_for_all_brokers():
    assert after(ALL_BROKERS, ("min.insync.replicas", SET, "2"))["min.insync.replicas"] == "2"
    refused = refusal(BROKER, ("min.insync.replicas", SET, "2"))
    assert (refused.code, "for all brokers" in refused.message) == (ErrorCode.INVALID_CONFIG, True)


def test_what_an_earlier_release_set_on_one_broker_can_be_taken_back():
    image, _ = apply_records(IMAGE, [ConfigRecord(BROKER.type, BROKER.name, "min.insync.replicas", "2")])
    assert after(BROKER, ("min.insync.replicas", DELETE, None), image=image) == {}


@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS])
def test_the_rates_of_throttled_replicas_are_set_on_one_broker_or_on_all(resource):
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        assert after(resource, (name, SET, "1000"))[name] == "1000"


@pytest.mark.parametrize(
    ("before", "wanted", "then"),
    [
        (None, "0:orders", "?/0:orders"),
        ("", "0:orders", "?/0:orders"),
        ("0:orders", "0:moved", "0:moved"),
        ("?/0:orders", "0:moved", "?/0:moved"),
        ("?/0:orders", "57/0:orders", "57/0:orders"),
        ("57/0:orders", "0:moved", "57/0:moved"),
        ("57/0:orders", "57/0:moved", "57/0:moved"),
        ("57/0:orders", "50/0:orders", "50/0:orders"),
        ("57/0:orders", "0:orders", "57/0:orders"),
        ("57/0:orders", "58/0:orders", None),
        ("57/0:orders", "?/0:orders", None),
        ("57/0:orders", "-1/0:orders", None),
        ("0:orders", "5/0:orders", None),
        (None, "5/0:orders", None),
    ],
)
def test_a_topic_that_gets_a_key_is_a_stream_from_where_its_leader_says(before, wanted, then):
    records = [] if before is None else [ConfigRecord(2, "a", "redis.key", before)]
    image = image_of(topic_record("a", 1), *records)
    decision = decide(TOPIC, ("redis.key", SET, wanted), image=image)
    if then is None:
        assert decision.result[TOPIC].code == ErrorCode.INVALID_CONFIG
    else:
        assert apply_records(image, decision.records)[0].config(TOPIC)["redis.key"] == then
        assert bool(decision.records) == (before != then)
