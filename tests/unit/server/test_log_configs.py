import pytest

from ottla.broker.configs import ConfigService
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import ALL_BROKERS
from ottla.server.log_configs import CONFIGS_MAX, LogConfigs
from tests.unit.broker.conftest import start_controller

__all__ = ["start_controller"]


@pytest.fixture
async def controller(start_controller):
    controller, _ = await start_controller({"log.retention.ms": "9"})
    await controller.create_topics(
        [NewTopic("a"), NewTopic("b"), NewTopic("c", configs={"retention.ms": "7", "min.insync.replicas": "2"})]
    )
    return controller


@pytest.fixture
def configs(controller):
    return LogConfigs(ConfigService(controller, controller._settings), flush_before_ack=False)


async def test_topics_that_set_the_same_things_share_what_is_made_of_them(controller, configs):
    a, b, c = (configs.of(name, controller.image) for name in "abc")
    assert a is b
    assert (a.log.retention_ms, a.min_insync_replicas, a.log.flush_before_ack) == (9, 1, False)
    assert (c.log.retention_ms, c.min_insync_replicas) == (7, 2)


async def test_a_change_for_all_brokers_holds_at_once(controller, configs):
    before = configs.of("a", controller.image)
    for name, value in (("log.retention.ms", "5"), ("producer.id.expiration.ms", "60000")):
        await controller.alter_configs([ResourceAlteration(ALL_BROKERS, [Alteration(name, AlterOperation.SET, value)])])
    after = configs.of("a", controller.image)
    assert (before.log.retention_ms, after.log.retention_ms, after.log.producer_id_expiration_ms) == (9, 5, 60_000)


async def test_what_is_remembered_has_a_limit(controller, configs):
    names = [f"t{number}" for number in range(CONFIGS_MAX + 10)]
    await controller.create_topics(
        [NewTopic(name, configs={"retention.ms": str(number)}) for number, name in enumerate(names)]
    )
    assert [configs.of(name, controller.image).log.retention_ms for name in names] == list(range(len(names)))
    assert len(configs._made) <= CONFIGS_MAX
