"""What one API of the Kafka protocol is to the gateway: a key, the versions served, and a handler.

Each API has a file of its own, `api_NN_name.py`, which opens with its version history and ends in a constant `API`.
The explicit table of them all is `ottla.gateways.kafka.apis`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from ottla.broker.request_quotas import RunCharge
from ottla.gateways.kafka.context import RequestContext
from ottla.native import ProduceRun
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.response_queue import ResponseSlot
from ottla.protocol.api_keys import APIS, ApiKey
from ottla.protocol.codec import codec_for
from ottla.protocol.frame import SingleFetchRequest, SingleProduceRequest

Handler = Callable[[RequestContext, Any], Any]
Decode = Callable[[int, memoryview, int], Any]
"""Makes a request of a version, a frame, and the offset at which the body begins in it."""
SingleRequest = SingleProduceRequest | SingleFetchRequest
HandleSingle = Callable[[Any, Any, ReceiveBuffer, ResponseSlot], None]
"""Serves a `SingleRequest` of its API, which the kernel has read, of the connection that comes first, and answers it
through the slot. To keep records beyond its return it retains the buffer, and releases it once."""
HandleRun = Callable[[Sequence[Any], ProduceRun, ReceiveBuffer, RunCharge | None], bool]
"""Serves a run of such requests as one, of the connections that come first; False when each is to be served by itself,
and nothing has happened. To keep the buffer as it is it retains it. It settles the charge, if any, when it has."""


class Api(Struct, frozen=True):
    """One API as the gateway serves it.

    `handle` gets the context and the decoded request. It returns the response, or None when it answers later through
    `ctx.respond(...)` or never through `ctx.no_response()`. One that must wait for the disk now and then answers from a
    task beside it (`ctx.go_on`).

    `is_async` says that `handle` is an `async def`: it runs as a task of its own, once `ottla.network.task_gate`
    admits the bytes of the request, and the requests behind it on its connection are held back until it is done
    (docs/design/0002). For what changes something by way of the controller, and what looks at the disk each time; never
    for Produce and Fetch. `starts_eagerly` says that it seldom has to wait: where it has not, it is answered before the
    next request is looked at, without a task. It may not ask what task it runs in. `after_responses` says that it
    begins once the requests before it on its connection are answered: what it changes would be done to them as well.

    `advertised_min_version` differs from `min_version` where clients need to see a version that is not served
    (Produce, KAFKA-18659). `is_between_brokers` says that ApiVersions tells of it those alone who have proved that they
    are brokers; to refuse a client that asks all the same is for its handler. `is_decided_by_controller` says that the
    request is sent on to the broker that is the controller, where `handle` runs; only for tasks, and not for requests
    of which `is_local` says that they concern this broker alone. `decode` is given where a client that is widely used
    does not keep to the format.
    """

    key: ApiKey
    min_version: int
    max_version: int
    handle: Handler
    is_async: bool = False
    advertised_min_version: int | None = None
    decode: Decode | None = None
    handle_single: HandleSingle | None = None
    handle_run: HandleRun | None = None
    is_between_brokers: bool = False
    is_decided_by_controller: bool = False
    is_local: Callable[[Any], bool] | None = None
    starts_eagerly: bool = False
    after_responses: bool = False

    @property
    def request_type(self) -> type[Any]:
        """The message class of its requests."""
        return APIS[self.key].request_class

    def serves(self, version: int) -> bool:
        """Whether requests of this version are served."""
        return self.min_version <= version <= self.max_version

    def decoder(self, version: int) -> Callable[[memoryview, int], Any]:
        """Makes a request of a frame and the offset of the body in it; raises InvalidInputError when it is none."""
        if self.decode is not None:
            return partial(self.decode, version)
        return codec_for(self.request_type, version).decode
