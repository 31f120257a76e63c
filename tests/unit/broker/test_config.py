from typing import Any

import pytest

from ottla.broker.config import BrokerConfig
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint


def test_without_settings_the_defaults_are_those_of_the_table():
    assert BrokerConfig.from_settings(BrokerSettings()) == BrokerConfig()


def test_the_section_has_what_the_settings_say():
    settings = {
        "node.id": "7",
        "advertised.listeners": "PLAINTEXT://a:1",
        "auto.create.topics.enable": "false",
        "max.request.partition.size.limit": "2",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": "4",
        "offsets.topic.segment.bytes": "5",
    }
    assert BrokerConfig.from_settings(BrokerSettings(settings)) == BrokerConfig(
        node_id=7,
        advertised_listeners={"PLAINTEXT": Endpoint("a", 1)},
        auto_create_topics_enable=False,
        max_request_partition_size_limit=2,
        offsets_topic_num_partitions=3,
        offsets_topic_replication_factor=4,
        offsets_topic_segment_bytes=5,
    )


@pytest.mark.parametrize("field", ["node_id", "offsets_topic_num_partitions", "max_request_partition_size_limit"])
def test_a_value_that_cannot_be_meant_is_refused_at_construction(field):
    with pytest.raises(ValueError, match=field):
        BrokerConfig(**dict[str, Any]({field: -1}))
