"""Changes of topics for gateways whose clients do not find the controller: decided here, or asked of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.client.errors import ClientError
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.image.image import topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.broker.configs import ConfigService
    from ottla.broker.topics import TopicService
    from ottla.model.principal import Principal
    from ottla.peers.controller_channel import ControllerChannel
    from ottla.protocol.message import ApiMessage
    from ottla.runtime.timer import Timer

R = TypeVar("R", bound="ApiMessage")

REQUEST_MS: Final = 5_000
RETRY_MS: Final = 250
TRIES: Final = 40
"""Ten seconds in all where nobody answers: as long as a controller may take to be replaced."""


class ClusterTopics:
    """Belongs to the event loop. Methods raise ApiError; what they did may be visible here a moment later."""

    def __init__(
        self,
        topics: TopicService,
        configs: ConfigService,
        authorizer: Authorizer,
        controller: ControllerChannel | None,
        timer: Timer,
    ) -> None:
        """`controller` reaches the controller; None on a broker that is alone."""
        self._topics = topics
        self._configs = configs
        self._authorizer = authorizer
        self._controller = controller
        self._timer = timer

    async def delete(self, principal: Principal, topic: str) -> None:
        """Delete a topic."""
        await self._until_decided(lambda: self._delete(principal, topic))

    async def configure(self, principal: Principal, name: str, values: Mapping[str, str | None]) -> None:
        """Give topics a setting, each its value, or take it back where that is None: all of them at once."""
        await self._until_decided(lambda: self._configure(principal, name, values))

    async def _until_decided(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Try again while there is no controller, or it moves."""
        for _ in range(TRIES):
            try:
                await attempt()
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
            else:
                return
            await self._timer.sleep(RETRY_MS)
        await attempt()

    async def _delete(self, principal: Principal, topic: str) -> None:
        if self._controller is None or self._controller.is_here:
            (outcome,) = await self._topics.delete(principal, [topic])
            if isinstance(outcome, ApiError):
                raise outcome
            return
        from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

        require(self._authorizer, principal, Operation.DELETE, ResourceType.TOPIC, topic)
        request = DeleteTopicsRequest(topic_names=(topic,), timeout_ms=REQUEST_MS)
        response = await self._ask(self._controller, request, DeleteTopicsResponse)
        for each in response.responses:
            _require_done(each.error_code, each.error_message)

    async def _configure(self, principal: Principal, name: str, values: Mapping[str, str | None]) -> None:
        changes = [
            (topic, AlterOperation.DELETE if value is None else AlterOperation.SET, value)
            for topic, value in values.items()
        ]
        if self._controller is None or self._controller.is_here:
            requests = [
                ResourceAlteration(topic_resource(topic), [Alteration(name, operation, value)])
                for topic, operation, value in changes
            ]
            for outcome in (await self._configs.alter(principal, requests)).values():
                if isinstance(outcome, ApiError):
                    raise outcome
            return
        from ottla.protocol.messages import incremental_alter_configs as messages

        for topic in values:
            require(self._authorizer, principal, Operation.ALTER_CONFIGS, ResourceType.TOPIC, topic)
        altered = tuple(
            messages.AlterConfigsResource(
                topic_resource(topic).type, topic, (messages.AlterableConfig(name, operation, value),)
            )
            for topic, operation, value in changes
        )
        message = messages.IncrementalAlterConfigsRequest(altered)
        response = await self._ask(self._controller, message, messages.IncrementalAlterConfigsResponse)
        for each in response.responses:
            _require_done(each.error_code, each.error_message)

    async def _ask(self, controller: ControllerChannel, request: ApiMessage, response: type[R]) -> R:
        try:
            return await controller.request(request, response, timeout_ms=REQUEST_MS)
        except ClientError as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"the controller is not reached: {error}") from error


def _require_done(code: int, message: str | None) -> None:
    if code:
        raise ApiError(ErrorCode(code), message or ErrorCode(code).name)
