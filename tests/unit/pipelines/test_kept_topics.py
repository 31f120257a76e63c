"""The controller knows the topics in which commands, pipelines and Spark's sink keep what they must not lose."""

from ottla.client.admin.pushed_metrics import CLIENT_METRICS_TOPIC
from ottla.model.topic_name import KEPT_TOPICS, SHARE_GROUP_HISTORY_TOPIC
from ottla.pipelines.dead_letters import ledger
from ottla.pipelines.runner import lease_log
from pyspark_ottla import sink_ledger


def test_all_of_them_are_known_by_name():
    kept = {CLIENT_METRICS_TOPIC, ledger.TOPIC, lease_log.TOPIC, sink_ledger.TOPIC, SHARE_GROUP_HISTORY_TOPIC}
    assert kept == KEPT_TOPICS
