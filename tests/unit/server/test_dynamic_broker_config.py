import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.admin.configs import ConfigResource
from ottla.client.errors import BrokerError, BrokerUnreachableError
from ottla.model.topic_partition import TopicPartition
from ottla.server.log_configs import LogConfigs
from ottla.server.server import Server
from tests.unit.server.whole_broker import alter, broker, client


async def test_a_limit_on_connections_holds_from_the_moment_it_is_set_until_it_is_taken_back(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        async with client(server):
            pass
        await alter(cluster, "", "max.connections.per.ip", "1")
        with pytest.raises(BrokerUnreachableError):
            async with client(server):
                pass
        await alter(cluster, "1", "max.connections.per.ip.overrides", "127.0.0.1:2")
        async with client(server):
            with pytest.raises(BrokerUnreachableError):
                async with client(server):
                    pass
        await alter(cluster, "1", "max.connections.per.ip.overrides", None)
        await alter(cluster, "", "max.connections.per.ip", None)
        await alter(cluster, "1", "max.connections", "1")
        with pytest.raises(BrokerUnreachableError):
            async with client(server):
                pass


async def test_a_rate_of_new_connections_holds_from_the_moment_it_is_set_until_it_is_taken_back(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        quotas = server.gateways.dynamic_config._quotas
        before = quotas.creation_rate_max
        await alter(cluster, "", "max.connection.creation.rate", "5")
        assert quotas.creation_rate_max == 5
        await alter(cluster, "1", "max.connection.creation.rate", "7")
        assert quotas.creation_rate_max == 7
        for name in ("1", ""):
            await alter(cluster, name, "max.connection.creation.rate", None)
        assert quotas.creation_rate_max == before


async def test_what_was_set_while_a_broker_ran_holds_after_its_restart_over_what_it_was_started_with(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        await alter(cluster, "", "max.connections", "1")
        await alter(cluster, "1", "log.retention.ms", "5000")
        await Admin(cluster).create_topic(NewTopic("a"))
    settings = {"max.connections": "100", "log.retention.ms": "9000"}
    async with broker(tmp_path, settings) as server, client(server) as cluster:
        assert server.replicas.get("a", 0).log.config.retention_ms == 5000
        with pytest.raises(BrokerUnreachableError):
            async with client(server):
                pass
        await alter(cluster, "1", "log.retention.ms", None)
        assert server.replicas.get("a", 0).log.config.retention_ms == 9000


async def test_the_defaults_of_topics_reach_their_logs_and_not_those_that_say_otherwise(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        await Admin(cluster).create_topic(NewTopic("a"))
        await Admin(cluster).create_topic(NewTopic("b", configs={"max.message.bytes": "7"}))
        await alter(cluster, "", "message.max.bytes", "9")
        await alter(cluster, "", "producer.id.expiration.ms", "60000")
        configs = [server.replicas.get(name, 0).log.config for name in ("a", "b")]
        assert [config.max_message_bytes for config in configs] == [9, 7]
        assert [config.producer_id_expiration_ms for config in configs] == [60_000, 60_000]


async def test_settings_changed_beside_topics_that_come_and_go_hold_for_every_log_in_the_end(tmp_path: Path) -> None:
    chance = random.Random(1)

    async def somebody(server: Server) -> None:
        async with client(server) as cluster:
            admin = Admin(cluster)
            for _ in range(40):
                name = f"t{chance.randrange(6)}"
                own = {"retention.ms": str(chance.randrange(1000, 9999))} if chance.random() < 0.5 else {}
                changes: list[Callable[[], Awaitable[object]]] = [
                    partial(admin.create_topic, NewTopic(name, chance.randrange(1, 4), configs=own)),
                    partial(admin.delete_topic, name),
                    partial(admin.create_partitions, name, chance.randrange(2, 6)),
                    partial(
                        admin.alter_configs,
                        ConfigResource.topic(name),
                        {"max.message.bytes": chance.choice(["5000", "6000", None])},
                    ),
                    partial(
                        alter, cluster, chance.choice(["", "1"]), "log.retention.ms", chance.choice(["7000", None])
                    ),
                    partial(alter, cluster, "1", "producer.id.expiration.ms", chance.choice(["60000", None])),
                ]
                with suppress(BrokerError):  # the topic is there, or is not, or is smaller
                    await chance.choice(changes)()

    async with broker(tmp_path, {}) as server:
        await asyncio.gather(*(somebody(server) for _ in range(4)))
        image, configs = (
            server.cluster.deciding.controller.image,
            LogConfigs(server.services.broker.configs, flush_before_ack=True),
        )
        held = {partition.topic_partition: partition.log.config for partition in server.replicas}
        assert held == {
            TopicPartition(topic.name, partition.index): configs.of(topic.name, image).log
            for topic in image.topics()
            for partition in topic.partitions
        }
