import pytest

from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.similar_names import SimilarNames
from ottla.settings.topic_table import TOPIC_SETTINGS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("retention_ms", "retention.ms"),
        ("Retention.Ms", "retention.ms"),
        ("retentionMs", "retention.ms"),
        ("retension.ms", "retention.ms"),
        ("retenton.ms", "retention.ms"),
        ("retention.mss", "retention.ms"),
        ("retenion.minutes", None),
        ("ms.retention", "retention.ms"),
        ("retention.byte", "retention.bytes"),
        ("cleanup.policies", "cleanup.policy"),
        ("clenaup.polcy", "cleanup.policy"),
        ("max.mesage.byte", "max.message.bytes"),
        ("min.in.sync.replicas", "min.insync.replicas"),
        ("mininsyncreplicas", "min.insync.replicas"),
        ("segmentbytes", "segment.bytes"),
        ("follower.replication.throttled.replica", "follower.replication.throttled.replicas"),
        ("", None),
        ("x", None),
        ("ms", None),
        ("no.such.setting", None),
        ("retention.ms" * 10_000, None),
    ],
)
def test_the_name_that_was_meant_is_found(written, meant):
    assert SimilarNames(TOPIC_SETTINGS).similar(written) == meant


@pytest.mark.parametrize("table", [TOPIC_SETTINGS, BROKER_SETTINGS])
def test_every_name_is_found_when_one_letter_of_it_is_wrong(table):
    names = SimilarNames(table)
    assert [names.similar(name) for name in table] == list(table)
    missed = [name for name in table if names.similar(name[:3] + name[4:]) is None]
    assert len(missed) < len(table) / 10
