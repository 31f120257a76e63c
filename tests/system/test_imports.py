"""What `ottla serve` alone has in its process: what it reads takes memory and time, whether or not anybody uses it."""

import re

import pytest
from kafka import KafkaConsumer, KafkaProducer

from ottla.gateways.kafka.apis import APIS
from ottla.server.module_preloader import OF_BROKERS, OF_CLIENTS, OF_TOPICS
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until

OF_OTHERS = (
    r"kazoo|pyarrow|pyspark|pandas|numpy|deltalake|duckdb|rich|yaml|ctypes|hashlib|hmac|lzma|secrets|shutil|"
    r"pyspark_ottla|ottla\.(pipelines|simulation|peers|security)|"
    r"ottla\.client\.(?!address$|errors$)\w+|"
    r"ottla\.metadata\.store\.(zookeeper\w*|migration)|"
    r"ottla\.metadata\.controller\.(broker_\w+|partition_(changes|leadership|upkeep)|leader_election|isr_alteration|"
    r"reassignment|heartbeat_tracker|elr_recount|topic_replication)|"
    r"ottla\.replication\.(follower|gathered_proposals|in_sync_replicas|isr_manager|partition_roles|replica_fetch\w*|"
    r"replicated_leader|replication_quota|replica_selector)|"
    r"ottla\.server\.(peer_cluster|replication|processes|local_cluster)|"
    r"ottla\.groups\.(classic_group|joining|group_shard|consumer(\..*)?|streams\.(?!streams_config$).*)|"
    r"ottla\.transactions\.(transaction_shard|ending)|ottla\.coordination\.shard_(runner|log|loader|timers)|"
    r"ottla\.storage\.(log_move|log_copy|future_logs|log_verification|segment_verification|log_swap)"
)
"""Modules of clusters, coordinators, commands, Spark, and of the standard library: a pattern for whole names."""

IMPORT = re.compile(r"^import '(\S+)' # ", re.MULTILINE)


def module_of(key: int) -> str:
    return APIS.rows[key].module


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> set[str]:
    """The modules of a broker alone with a producer and a consumer, when it has read what it reads by itself."""
    broker = BrokerProcess(tmp_path_factory.mktemp("imports") / "data", environment={"PYTHONVERBOSE": "1"})

    def names() -> set[str]:
        return set(IMPORT.findall(broker.log_path.read_text()))

    last = f"ottla.gateways.kafka.{module_of(OF_CLIENTS.apis[-1])}"
    with broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        producer.send("flights", b"record").get(60)
        producer.close()
        consumer = KafkaConsumer(
            "flights", bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="earliest"
        )
        assert next(consumer).value == b"record"
        consumer.close()
        wait_until(lambda: last in names(), f"{last} to be read")
    return names()


def test_one_broker_alone_has_nothing_of_clusters_coordinators_and_spark(imported):
    assert "ottla.server.server" in imported
    assert sorted(name for name in imported if re.fullmatch(OF_OTHERS, name)) == []


def test_one_broker_alone_has_the_apis_of_producers_and_consumers_and_none_of_others(imported):
    apis = {name.rpartition(".")[2] for name in imported if re.match(r"ottla\.gateways\.kafka\.api_[0-9]", name)}
    of_others = [OF_BROKERS, *OF_TOPICS.values()]
    assert {module_of(key) for key in OF_CLIENTS.apis} <= apis
    assert {module_of(key) for part in of_others for key in part.apis} & apis == set()
